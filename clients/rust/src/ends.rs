use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::call::Deadline;
use crate::calls::{Calls, GET_INFO};
use crate::errors::{Error, Outcome};
use crate::wire;

type Answer = Option<Result<i64, Error>>;

/// The ends of logs that are being asked for. Who comes while a call is under way is answered by
/// the next one, with all others who came: what was acknowledged before lies below.
#[derive(Default)]
pub(crate) struct Ends(Mutex<HashMap<String, Option<watch::Sender<Answer>>>>);

impl Ends {
    /// By log that is asked for: who came meanwhile.
    fn next(&self) -> MutexGuard<'_, HashMap<String, Option<watch::Sender<Answer>>>> {
        self.0.lock().expect("not poisoned")
    }
}

/// The answer to a call that begins from now on.
pub(crate) async fn end(calls: Arc<Calls>, log: String) -> Result<i64, Error> {
    let mut answer = join(&calls, log);
    let answered = answer.wait_for(Option::is_some).await;
    // Without an answer the runtime that was to get it has ended.
    answered.ok().and_then(|answer| answer.clone()).unwrap_or_else(|| Err(Error::closed("client", Outcome::NotDone)))
}

fn join(calls: &Arc<Calls>, log: String) -> watch::Receiver<Answer> {
    let (answer, answered) = watch::channel(None);
    let mut next = calls.ends.next();
    match next.get_mut(&log) {
        Some(Some(next)) => return next.subscribe(),
        Some(nobody) => *nobody = Some(answer),
        None => {
            next.insert(log.clone(), None);
            tokio::spawn(ask(Asking { calls: calls.clone(), log, over: false }, answer));
        }
    }
    answered
}

/// Asks, and then for those who have come meanwhile, until nobody has.
async fn ask(mut asking: Asking, mut answer: watch::Sender<Answer>) {
    let (calls, log) = (asking.calls.clone(), asking.log.clone());
    loop {
        let request = wire::GetInfoRequest { log: log.clone(), ..Default::default() };
        let answered = calls.to_leader(&log, &GET_INFO, request, Deadline(None)).await;
        answer.send_replace(Some(answered.map(|known| known.info.unwrap_or_default().end_offset)));
        let mut next = calls.ends.next();
        match next.get_mut(&log).and_then(Option::take) {
            Some(others) => answer = others,
            None => {
                next.remove(&log);
                asking.over = true;
                return;
            }
        }
    }
}

/// That a log is asked for. Dropped with its runtime, it lets those go who came meanwhile.
struct Asking {
    calls: Arc<Calls>,
    log: String,
    over: bool,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.over
            && let Ok(mut next) = self.calls.ends.0.lock()
        {
            next.remove(&self.log);
        }
    }
}
