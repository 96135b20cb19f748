use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::admin::release_writer;
use crate::call::{Call, Deadline};
use crate::calls::{self, Calls};
use crate::errors::{Error, Outcome};
use crate::reason::Reason;
use crate::renewed::{self, Life};
use crate::wire;
use crate::writers::{WriterClaim, WriterGrant, lease_request};

/// How long one call waits in line. Whoever has left the line for longer than it takes to call again
/// has lost its place.
const WAIT: Duration = Duration::from_secs(10);

/// The writer lease of a log, which this program has and renews three times in each lease until
/// [`WriterLease::release`], [`WriterLease::hand_over`] or [`WriterLease::close`], or until it is
/// dropped: then it ends when it runs out. Made by
/// [`Client::lease_writer`](crate::Client::lease_writer).
pub struct WriterLease {
    held: Arc<Held>,
    renewing: JoinHandle<()>,
}

/// What a lease shares with its task.
struct Held {
    calls: Arc<Calls>,
    log: String,
    claim: WriterClaim,
    grant: WriterGrant,
    until: Mutex<Instant>,
    handing: AtomicUsize, // handovers that are under way, which say how the lease ends
    life: Life,
}

impl WriterLease {
    pub(crate) async fn open(
        calls: Arc<Calls>,
        log: String,
        claim: WriterClaim,
        deadline: Deadline,
    ) -> Result<WriterLease, Error> {
        let mut log_id = 0;
        let name = (log.clone(), claim.name.clone());
        if calls.unreleased.lock().expect("not poisoned").contains(&name) {
            pause(deadline).await?; // another program of the name may have taken the lease
        }
        let (began, grant) = loop {
            let began = Instant::now();
            let request = lease_request(&log, log_id, claim.clone(), WAIT);
            let answer = calls.in_line(&log, &calls::LEASE_WRITER, request, deadline).await?;
            if answer.writer_term != 0 {
                break (began, answer.into());
            }
            log_id = answer.log_id;
            if began.elapsed() < WAIT / 2 {
                pause(deadline).await?; // another program of the name has taken the place in line
            }
        };
        let until = Mutex::new(began + claim.lease);
        calls.unreleased.lock().expect("not poisoned").insert(name);
        let (handing, life) = (AtomicUsize::new(0), Life::new());
        let held = Arc::new(Held { calls, log, claim, grant, until, handing, life });
        Ok(WriterLease { renewing: tokio::spawn(renew(held.clone())), held })
    }

    /// The claim with which the lease was acquired.
    pub fn claim(&self) -> &WriterClaim {
        &self.held.claim
    }

    /// The writer term that was granted with the lease, for
    /// [`ProducerOptions::writer_term`](crate::ProducerOptions::writer_term): whatever this program
    /// believes, no record with it follows a record of a newer one.
    pub fn term(&self) -> u64 {
        self.held.grant.term
    }

    /// The end of the log when the term began: all records of older writers are below it.
    pub fn end(&self) -> i64 {
        self.held.grant.end
    }

    /// How long the lease lasts at least: one lease after the newest renewal that succeeded was sent,
    /// or before this program waited in line.
    pub fn left(&self) -> Duration {
        self.held.until.lock().expect("not poisoned").saturating_duration_since(Instant::now())
    }

    /// Why the lease has ended: [`Reason::Fenced`] if another program may have it;
    /// [`Reason::PermissionDenied`] or [`Reason::Unauthenticated`] if this program may no longer renew
    /// it. None before, and after it was released, handed over or closed.
    pub fn error(&self) -> Option<Error> {
        self.held.life.error()
    }

    /// Waits until the lease is known to have ended, or was released, handed over or closed, and
    /// returns [`WriterLease::error`].
    pub async fn ended(&self) -> Option<Error> {
        self.held.life.ended().await
    }

    /// Ends the lease: the next program in line gets it at once. If it fails, it may be called again;
    /// the lease is no longer renewed.
    pub fn release(&self) -> Call<'_, ()> {
        Call::new(move |deadline| async move {
            self.close();
            match self.held.release("", deadline).await {
                Err(e) if *e.reason() != Reason::Fenced => Err(e),
                _ => Ok(()),
            }
        })
    }

    /// Ends the lease in favor of the program in line that has a name. [`Reason::Precondition`]: none
    /// has it, and this program keeps the lease. [`Reason::Fenced`]: the lease had ended.
    pub fn hand_over(&self, to: &str) -> Call<'_, ()> {
        let to = to.to_string();
        Call::new(move |deadline| async move {
            if to.is_empty() {
                return Err(Error::invalid("a handover must name the next holder; release ends the lease without one"));
            }
            let handing = Handing::begin(&self.held.handing);
            let handed = self.held.release(&to, deadline).await;
            if handed.is_ok() {
                self.close();
            }
            drop(handing);
            if let Err(e) = &handed
                && self.held.lost(e)
            {
                self.held.life.fail(e.clone());
            }
            handed
        })
    }

    /// Stops renewing the lease, which ends when it runs out.
    pub fn close(&self) {
        self.held.life.close();
        self.renewing.abort();
    }
}

impl Drop for WriterLease {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for WriterLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterLease").field("claim", self.claim()).field("term", &self.term()).finish_non_exhaustive()
    }
}

impl Held {
    async fn release(&self, to: &str, deadline: Deadline) -> Result<(), Error> {
        let (log, to) = (self.log.clone(), to.to_string());
        let request = wire::ReleaseWriterRequest { log, log_id: self.grant.log_id, writer_term: self.grant.term, to };
        release_writer(&self.calls, request, deadline).await?;
        let name = (self.log.clone(), self.claim.name.clone());
        self.calls.unreleased.lock().expect("not poisoned").remove(&name);
        Ok(())
    }

    /// Reports whether an error says that the lease has ended, and no handover is under way: it may be
    /// the effect of that, or the next renewal finds it again.
    fn lost(&self, e: &Error) -> bool {
        *e.reason() == Reason::Fenced && self.handing.load(Ordering::Relaxed) == 0
    }

    async fn keep(&self) -> Result<(), Error> {
        let (log, sent) = (self.log.clone(), Instant::now());
        let request = wire::KeepWriterRequest { log, log_id: self.grant.log_id, writer_term: self.grant.term };
        match self.calls.renew(&self.log, &calls::KEEP_WRITER, request, self.claim.lease).await {
            Ok(_) => *self.until.lock().expect("not poisoned") = sent + self.claim.lease,
            Err(e) if *e.reason() == Reason::Fenced && !self.lost(&e) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// Renews a lease until there is nothing to renew. It begins at once, so that the time in line does
/// not count against [`WriterLease::left`].
async fn renew(held: Arc<Held>) {
    let lease = held.claim.lease;
    renewed::renew(&held.calls, &held.life, lease, Duration::ZERO, Reason::Fenced, || held.keep()).await;
}

/// Pauses between calls for one name: two programs that have it would take the lease, or the place in
/// line, from each other as fast as they can call.
async fn pause(deadline: Deadline) -> Result<(), Error> {
    let pause = async {
        sleep(Duration::from_millis(fastrand::u64(100..1000))).await;
        Ok(())
    };
    deadline.bound(Outcome::NotDone, pause).await
}

/// A handover that is under way, until it is dropped.
struct Handing<'a>(&'a AtomicUsize);

impl Handing<'_> {
    fn begin(handing: &AtomicUsize) -> Handing<'_> {
        handing.fetch_add(1, Ordering::Relaxed);
        Handing(handing)
    }
}

impl Drop for Handing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
