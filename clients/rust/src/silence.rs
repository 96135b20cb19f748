//! Leaves a node that is silent while another one answers. A node that was paused, or cut off one
//! way, keeps its connections, and the transport takes 15 s to notice.
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::calls::Calls;
use crate::errors::{Error, Outcome};
use crate::reason::Reason;

/// How long a node may be without any answer before it is asked whether it is there.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// The same of a reader that has had a frame: at the end of a log that takes no appends it rarely
/// gets another.
const QUIET_AFTER: Duration = Duration::from_secs(2);

/// How long is waited on where nobody could say that another node does better.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a node may take for the answer to a question that costs nothing.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    Answer,
    /// The answer to a call that waits in line for its turn, which may take longer than tries may.
    Turn,
    /// The answer to the renewal of such a lease: another node is to be asked while it lasts, which
    /// the next leader gives anew.
    Renewal(Duration),
    /// A frame of a reader, or a description of a log, behind another one.
    Frame,
    /// A state of a stream that shows what the leader of a log knows again and again.
    State,
}

impl Waiting {
    /// How long is waited until the first look and until the next, and for an answer of a look.
    fn times(self) -> (Duration, Duration, Duration) {
        match self {
            Waiting::Answer | Waiting::Turn => (SUSPECT_AFTER, AGAIN, ANSWER_PATIENCE),
            // Even the look that begins just before another node leads, and the next one, take half
            // of the lease together.
            Waiting::Renewal(lease) => {
                let sixth = lease / 6;
                (SUSPECT_AFTER.min(sixth), AGAIN.min(sixth), ANSWER_PATIENCE.min(sixth))
            }
            Waiting::Frame | Waiting::State => (QUIET_AFTER, QUIET_AFTER, ANSWER_PATIENCE),
        }
    }
}

/// What a node answers to a question that costs nothing.
#[derive(Default)]
struct Sign {
    alive: bool,
    leader: String, // of the log, as far as the node knows
    term: u64,
}

/// Waits for a node, unless it is silent and another one may do better. Then what was asked of it
/// may have had its effect. `log` is the one whose leader is asked; empty: other nodes answer as well.
pub(crate) async fn attend<T>(
    calls: &Arc<Calls>,
    (tried, log): (&str, &str),
    waiting: Waiting,
    doing: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if !calls.peers.addresses.iter().any(|address| address != tried) {
        return doing.await;
    }
    let mut doing = pin!(doing);
    let (mut wait, again, patience) = waiting.times();
    loop {
        if let Ok(done) = timeout(wait, &mut doing).await {
            return done;
        }
        let look = async {
            if waiting == Waiting::Frame && sign(calls, tried, "", patience).await.alive {
                return None;
            }
            leave(calls, tried, log, patience).await
        };
        let why = tokio::select! {
            biased;
            done = &mut doing => return done,
            why = look => why,
        };
        if let Some(why) = why {
            return Err(why);
        }
        wait = again;
    }
}

/// Why a node is to be left: another one leads the log in a newer term than it knows of, or it
/// does not even answer a question that costs nothing while another one does.
async fn leave(calls: &Arc<Calls>, tried: &str, log: &str, patience: Duration) -> Option<Error> {
    let mut asking = JoinSet::new();
    for address in calls.peers.addresses.iter().filter(|address| *address != tried) {
        let (calls, address, log) = (calls.clone(), address.clone(), log.to_string());
        asking.spawn(async move { sign(&calls, &address, &log, patience).await });
    }
    let (own, others) = tokio::join!(sign(calls, tried, log, patience), asking.join_all());
    let alive = others.iter().any(|sign| sign.alive);
    let newest = others.into_iter().filter(|sign| !sign.leader.is_empty()).max_by_key(|sign| sign.term);
    match newest {
        Some(Sign { leader, term, .. }) => {
            let newer = !own.alive || !own.leader.is_empty() && term > own.term;
            let message = format!("{tried} does not answer, and {leader} leads now");
            (leader != tried && newer).then(|| {
                let error = Error::new(Reason::NotLeader, message).with_retry().with_outcome(Outcome::MaybeDone);
                error.with_fact("leader", leader)
            })
        }
        None => (alive && !own.alive).then(|| {
            let message = format!("{tried} does not answer for now, and other nodes do");
            Error::unreachable(Outcome::MaybeDone, message)
        }),
    }
}

/// Whatever a node answers, it is there.
async fn sign(calls: &Calls, address: &str, log: &str, patience: Duration) -> Sign {
    let asked = async {
        let channel = calls.peers.connect(address).await?;
        if log.is_empty() {
            calls.health(channel).await.map(|()| None)
        } else {
            calls.known(channel, log).await.map(Some)
        }
    };
    match timeout(patience, asked).await {
        Ok(Ok(info)) => {
            let info = info.unwrap_or_default();
            Sign { alive: true, leader: info.leader, term: info.leader_term }
        }
        Ok(Err(e)) if !matches!(e.reason(), Reason::Unreachable | Reason::Cancelled | Reason::Closed) => {
            Sign { alive: true, ..Sign::default() }
        }
        _ => Sign::default(),
    }
}
