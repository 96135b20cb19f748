use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::unconstrained;

use crate::backlog::{Backlog, Interruption};
use crate::errors::{Error, Outcome};
use crate::producer_options::ProducerOptions;
use crate::reason::Reason;

/// What a producer, its records' futures and its tasks share.
pub(crate) struct Shared {
    pub options: Arc<ProducerOptions>,
    backlog: Mutex<Backlog>,
    room: Arc<Semaphore>,
    changed: Notify, // there may be something to send
    interruption: watch::Sender<Option<Interruption>>,
    ended: watch::Sender<bool>,
    round: AtomicU64,
}

impl Shared {
    pub fn new(options: ProducerOptions) -> Shared {
        let options = Arc::new(options);
        let backlog = Backlog::new(options.clone());
        Shared {
            room: backlog.room.clone(),
            backlog: Mutex::new(backlog),
            options,
            changed: Notify::new(),
            interruption: watch::Sender::new(None),
            ended: watch::Sender::new(false),
            round: AtomicU64::new(0),
        }
    }

    /// It is never held over an await.
    pub fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().expect("not poisoned")
    }

    /// Waits for room for records of a size, first come, first served. Returns what they take.
    pub async fn reserve(&self, size: usize) -> Result<usize, Error> {
        // What is larger than the buffer goes alone.
        let permits = size.min(self.options.buffer_bytes);
        // A task's budget would put off who comes first behind who comes next.
        match unconstrained(self.room.acquire_many(permits as u32)).await {
            Ok(reserved) => reserved.forget(),
            Err(_) => return Err(self.why_ended()),
        }
        Ok(permits)
    }

    fn why_ended(&self) -> Error {
        self.backlog().ended.clone().unwrap_or_else(|| Error::closed("producer", Outcome::NotDone))
    }

    /// Adds to the backlog what there is room for.
    pub fn accept<T>(&self, add: impl FnOnce(&mut Backlog) -> T) -> Result<T, Error> {
        let mut backlog = self.backlog();
        if let Some(ended) = &backlog.ended {
            return Err(ended.clone());
        }
        let added = add(&mut backlog);
        let wake = backlog.sendable();
        drop(backlog);
        if wake {
            self.changed.notify_one();
        }
        Ok(added)
    }

    /// Has the rounds look at what can be sent.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Waits until there may be something to send.
    pub async fn woken(&self) {
        self.changed.notified().await;
    }

    /// Ends the producer: what has no answer fails.
    pub fn end(&self) {
        self.ended.send_replace(true);
        self.interrupt(Error::closed("producer", Outcome::NotDone).into());
    }

    pub fn ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until the producer is ended.
    pub async fn until_ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Ends the round, or the next one if there is none now. Of several reasons the first counts.
    pub fn interrupt(&self, interruption: Interruption) {
        self.interruption.send_if_modified(|slot| {
            let first = slot.is_none();
            slot.get_or_insert(interruption);
            first
        });
    }

    /// Waits until a round is interrupted.
    pub async fn interrupted(&self) {
        let _ = self.interruption.subscribe().wait_for(Option::is_some).await;
    }

    pub fn is_interrupted(&self) -> bool {
        self.interruption.borrow().is_some()
    }

    /// Ends a round, and returns why it was interrupted if it was.
    pub fn end_round(&self) -> Option<Interruption> {
        self.round.fetch_add(1, Ordering::SeqCst);
        self.interruption.send_replace(None)
    }

    /// Drops an interruption by a record that was too old between two rounds: it may be settled by
    /// now, and what was accepted later must not fail for it. If it is not, the watch says so again.
    pub fn forget_timeout(&self) {
        self.interruption.send_if_modified(|slot| slot.take_if(|i| *i.error.reason() == Reason::TimedOut).is_some());
    }

    /// The number of the round: what was found out in one says nothing of the next.
    pub fn round(&self) -> u64 {
        self.round.load(Ordering::SeqCst)
    }
}
