//! What runs beside the rounds of a producer: it ends those that take too long, leaves a leader
//! that has fallen silent, and keeps the lease of a session that is idle.
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::calls::Calls;
use crate::errors::{Error, Outcome};
use crate::producer_session::ProducerSession;
use crate::reason::Reason;
use crate::shared::Shared;

/// How long requests may be without any answer before others are asked who leads: a leader that
/// was paused, or cut off one way, keeps its connections.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);

const BEAT: Duration = Duration::from_secs(1);
const SHORTEST_BEAT: Duration = Duration::from_millis(10);

fn beats(of: Duration) -> Interval {
    let mut clock = interval(of.clamp(SHORTEST_BEAT, BEAT));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock
}

/// Ends rounds that take too long, and leaves a leader that has fallen silent.
pub(crate) async fn watch(calls: Arc<Calls>, log: String, shared: Arc<Shared>) {
    let quarter = shared.options.record_timeout.map_or(BEAT, |t| t / 4);
    let lease = if shared.options.in_session() { shared.options.lease / 12 } else { BEAT };
    let mut clock = beats(quarter.min(lease));
    loop {
        clock.tick().await;
        let round = shared.round();
        let (overdue, silent, node) = {
            let backlog = shared.backlog();
            let first = backlog.window.waiting().next().filter(|_| backlog.window.sent > 0).and_then(|r| r.sent);
            let silent = first.map(|sent| sent.max(backlog.last_sign).elapsed());
            (backlog.overdue(), silent, backlog.node.clone())
        };
        if let Some(limit) = shared.options.record_timeout
            && overdue
        {
            let error = Error::new(Reason::TimedOut, format!("no answer within {limit:?}"));
            shared.interrupt(error.with_retry().into());
        }
        if silent.is_some_and(|silent| silent > SUSPECT_AFTER)
            && let Some(error) = suspect(&calls, &log, &node).await
            && shared.round() == round
        {
            shared.interrupt(error.into());
        }
    }
}

/// Asks the nodes beside one who leads. An error says that it is another one by now. Should they be
/// wrong, that one says so, and what was sent again is recognised. Who is believed to lead does not
/// matter: a call may have found that out meanwhile.
async fn suspect(calls: &Arc<Calls>, log: &str, node: &str) -> Option<Error> {
    let mut asking = JoinSet::new();
    for address in calls.peers.addresses.iter().filter(|address| *address != node) {
        let (calls, address, log) = (calls.clone(), address.clone(), log.to_string());
        asking.spawn(async move { calls.known_info(calls.peers.connect(&address).await?, &log).await });
    }
    let answers = asking.join_all().await;
    let known = answers.into_iter().flatten().filter(|info| !info.leader.is_empty());
    let leader = known.max_by_key(|info| info.leader_term).map(|info| info.leader).filter(|leader| *leader != node)?;
    let error = Error::new(Reason::NotLeader, format!("the leader is silent, and {leader} leads now"));
    Some(error.with_retry().with_outcome(Outcome::MaybeDone).with_fact("leader", leader))
}

/// Keeps the lease of a session that is idle.
pub(crate) async fn keep(session: ProducerSession, shared: Arc<Shared>) {
    let mut clock = beats(shared.options.lease / 12);
    loop {
        clock.tick().await;
        if let Err(error) = session.keep().await
            && error.ends_session()
        {
            shared.interrupt(error.into());
        }
    }
}
