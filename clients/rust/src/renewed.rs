//! What this program has for as long as it renews a lease.
use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::calls::Calls;
use crate::errors::{Error, Outcome};
use crate::reason::Reason;

/// Whether something that is renewed has ended, and why.
pub(crate) struct Life(watch::Sender<End>);

enum End {
    NotYet,
    Closed,
    Failed(Error),
}

impl Life {
    pub fn new() -> Life {
        Life(watch::Sender::new(End::NotYet))
    }

    /// Why it has ended. None before, and after it was closed.
    pub fn error(&self) -> Option<Error> {
        match &*self.0.borrow() {
            End::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Waits for the end.
    pub async fn ended(&self) -> Option<Error> {
        let _ = self.0.subscribe().wait_for(|end| !matches!(end, End::NotYet)).await;
        self.error()
    }

    /// Fails once it has ended.
    pub fn check(&self, what: &str) -> Result<(), Error> {
        match &*self.0.borrow() {
            End::NotYet => Ok(()),
            End::Closed => Err(Error::closed(what, Outcome::NotDone)),
            End::Failed(error) => Err(error.clone()),
        }
    }

    pub fn close(&self) {
        self.end(End::Closed);
    }

    pub fn fail(&self, error: Error) {
        self.end(End::Failed(error));
    }

    /// Of several reasons the first counts.
    fn end(&self, why: End) {
        self.0.send_if_modified(|end| {
            let first = matches!(end, End::NotYet);
            if first {
                *end = why;
            }
            first
        });
    }
}

/// Renews after a time, and again after each third of a lease, until there is nothing to renew: `gone`
/// is the reason of an error then.
pub(crate) async fn renew<F>(
    calls: &Calls,
    life: &Life,
    lease: Duration,
    after: Duration,
    gone: Reason,
    act: impl Fn() -> F,
) where
    F: Future<Output = Result<(), Error>>,
{
    let mut clock = interval_at(Instant::now() + after, (lease / 3).max(Duration::from_millis(1)));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = clock.tick() => (),
            () = calls.peers.until_closed() => return life.fail(Error::closed("client", Outcome::NotDone)),
        }
        if let Err(error) = act().await
            && (*error.reason() == gone || ends(error.reason()))
        {
            return life.fail(error);
        }
    }
}

/// Reports whether there is nothing to renew after an error of a renewal, whatever is renewed.
fn ends(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::LogNotFound | Reason::LogReplaced | Reason::PermissionDenied | Reason::Unauthenticated | Reason::Closed
    )
}
