use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::admin::{Place, set_hold_request};
use crate::call::{Call, Deadline};
use crate::calls::{self, Calls};
use crate::errors::{Error, Outcome};
use crate::logs::Hold;
use crate::reason::Reason;
use crate::renewed::{self, Life};
use crate::wire;

/// A hold that this program has set and, if it has a lease, renews after each third of it until
/// [`KeptHold::release`] or [`KeptHold::close`], or until it is dropped: a program that dies keeps
/// nothing for longer than the lease. Made by [`Client::hold`](crate::Client::hold).
pub struct KeptHold {
    kept: Arc<Kept>,
    renewing: Option<JoinHandle<()>>,
}

/// What a hold shares with its task.
struct Kept {
    calls: Arc<Calls>,
    log: String,
    log_id: u64,
    hold: Mutex<Hold>,
    turn: tokio::sync::Mutex<()>, // one move at a time
    life: Life,
}

impl KeptHold {
    pub(crate) async fn open(
        calls: Arc<Calls>,
        log: String,
        hold: Hold,
        place: Place,
        deadline: Deadline,
    ) -> Result<KeptHold, Error> {
        let request = set_hold_request(&log, 0, hold.clone(), place);
        let answer = calls.to_leader(&log, &calls::SET_HOLD, request, deadline).await?;
        let lease = hold.lease;
        let hold = Mutex::new(Hold { offset: answer.offset, ..hold });
        let turn = tokio::sync::Mutex::default();
        let kept = Arc::new(Kept { calls, log, log_id: answer.log_id, hold, turn, life: Life::new() });
        let renewing = lease.map(|lease| tokio::spawn(renew(kept.clone(), lease)));
        Ok(KeptHold { kept, renewing })
    }

    /// The hold as it was set or moved last.
    pub fn hold(&self) -> Hold {
        self.kept.hold.lock().expect("not poisoned").clone()
    }

    /// Why the hold has ended: [`Reason::HoldNotFound`] if it has expired, or was broken or released
    /// by others; [`Reason::PermissionDenied`] or [`Reason::Unauthenticated`] if this program may not
    /// renew it any more, so that it ends with its lease. None before, and after it was closed.
    pub fn error(&self) -> Option<Error> {
        self.kept.life.error()
    }

    /// Waits until the hold is known to have ended, or was closed, and returns [`KeptHold::error`].
    pub async fn ended(&self) -> Option<Error> {
        self.kept.life.ended().await
    }

    /// Puts the hold at another offset with another pointer, in one step: what is below may go from
    /// then on. Once it has ended this fails with [`KeptHold::error`], or with [`Reason::Closed`]
    /// after it was closed. [`Client::hold`](crate::Client::hold) sets such a hold anew, if the
    /// records from its offset on are still there.
    pub fn move_to(&self, offset: i64, pointer: impl Into<bytes::Bytes>) -> Call<'_, ()> {
        let pointer = pointer.into();
        Call::new(move |deadline| async move {
            let kept = &self.kept;
            let _turn = deadline.bound(Outcome::NotDone, async { Ok(kept.turn.lock().await) }).await?;
            kept.life.check("hold")?;
            let moved = Hold { offset, pointer, ..self.hold() };
            let request = set_hold_request(&kept.log, kept.log_id, moved.clone(), Place::Offset);
            let answer = kept.calls.to_leader(&kept.log, &calls::SET_HOLD, request, deadline).await?;
            kept.life.check("hold")?; // or else what was set just now would expire
            *kept.hold.lock().expect("not poisoned") = Hold { offset: answer.offset, ..moved };
            Ok(())
        })
    }

    /// Ends the hold. If it fails, it may be called again; the lease is renewed no more.
    pub fn release(&self) -> Call<'_, ()> {
        Call::new(move |deadline| async move {
            self.close();
            let kept = &self.kept;
            let request =
                wire::ReleaseHoldRequest { log: kept.log.clone(), name: self.hold().name, log_id: kept.log_id };
            match kept.calls.to_leader(&kept.log, &calls::RELEASE_HOLD, request, deadline).await {
                Err(e) if *e.reason() != Reason::HoldNotFound => Err(e),
                _ => Ok(()),
            }
        })
    }

    /// Ends the renewals and leaves the hold as it is: it ends with its lease, if it has one.
    pub fn close(&self) {
        self.kept.life.close();
        if let Some(renewing) = &self.renewing {
            renewing.abort();
        }
    }
}

impl Drop for KeptHold {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for KeptHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptHold").field("hold", &self.hold()).finish_non_exhaustive()
    }
}

/// Renews a hold until there is nothing to renew.
async fn renew(kept: Arc<Kept>, lease: Duration) {
    let name = kept.hold.lock().expect("not poisoned").name.clone();
    renewed::renew(&kept.calls, &kept.life, lease, lease / 3, Reason::HoldNotFound, || async {
        let request = wire::KeepHoldRequest { log: kept.log.clone(), name: name.clone(), log_id: kept.log_id };
        kept.calls.renew(&kept.log, &calls::KEEP_HOLD, request, lease).await.map(drop)
    })
    .await;
}
