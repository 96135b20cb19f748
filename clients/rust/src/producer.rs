use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, consume_budget};

use crate::call::{Call, Deadline};
use crate::calls::Calls;
use crate::errors::{Error, Outcome, Position};
use crate::logs::Session;
use crate::pending::Pending;
use crate::producer_options::{Batch, ProducerOptions};
use crate::producer_session::ProducerSession;
use crate::records::{NewRecord, check_size, check_time};
use crate::rounds::Rounds;
use crate::shared::Shared;
use crate::stats::Stats;
use crate::wire;

/// Appends records to one log: pipelined, in the order they were given, each at most once.
///
/// Records gather in a request while earlier ones are in flight. When a connection breaks or
/// another node becomes the leader, the requests without an answer are sent again, in order, with
/// the same sequences, so that the log recognises what it has already.
///
/// When the log refuses a request for good, that request fails and so does every record that was
/// accepted after it and before the failure ([`Reason::BehindFailed`](crate::Reason::BehindFailed)):
/// none slips ahead. Records accepted later go on in the session's next epoch. When the session
/// itself is gone, everything without an answer is settled by asking the log; if that leaves a
/// record in doubt, the producer ends.
///
/// Made by [`Client::producer`](crate::Client::producer). All methods may be called from several
/// tasks; [`Producer::close`] it, as dropping it fails what has no answer.
pub struct Producer {
    log: String,
    shared: Arc<Shared>,
    session: ProducerSession,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Producer {
    pub(crate) async fn open(
        calls: Arc<Calls>,
        log: String,
        options: ProducerOptions,
        deadline: Deadline,
    ) -> Result<Producer, Error> {
        options.check()?;
        let shared = Arc::new(Shared::new(options));
        let session = ProducerSession::new(calls.clone(), &log, shared.clone());
        session.open(deadline).await?;
        let rounds = Rounds::new(calls, &log, shared.clone(), session.clone());
        let running = Mutex::new(Some(tokio::spawn(rounds.run())));
        Ok(Producer { log, shared, session, running })
    }

    /// Name of the log.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Accepts a record, and returns a future of its offset. It waits only while as much as
    /// [`ProducerOptions::buffer_bytes`] is without answers; dropped before it is ready, nothing
    /// was accepted.
    ///
    /// # Errors
    ///
    /// Nothing is in the log: [`Reason::TooLarge`](crate::Reason::TooLarge),
    /// [`Reason::Invalid`](crate::Reason::Invalid) of a timestamp beyond the year 9999,
    /// [`Reason::Closed`](crate::Reason::Closed), or the error that has ended the producer.
    pub async fn send(&self, record: impl Into<NewRecord>) -> Result<Pending, Error> {
        let record = record.into();
        consume_budget().await; // who sends in a loop leaves the thread to the rounds now and then
        self.accept(record).await
    }

    async fn accept(&self, record: NewRecord) -> Result<Pending, Error> {
        let record = wire::Record::from(record);
        check_time(&record)?;
        let size = record.size();
        check_size(size, 1)?;
        let permits = self.shared.reserve(size).await?;
        let (at, answer) = self.shared.accept(|backlog| backlog.add(&record, permits))?;
        Ok(Pending::new(self.shared.clone(), at, answer))
    }

    /// Appends a record and waits until it is durable. Returns its offset. Of appends that are
    /// awaited together the one that is polled first is accepted first.
    ///
    /// With [`Call::within`] the record is on its way all the same when the time ends, unless the
    /// outcome of the error is [`Outcome::NotDone`].
    pub fn append(&self, record: impl Into<NewRecord>) -> Call<'_, i64> {
        let record = record.into();
        Call::new(move |deadline| async move {
            let pending = deadline.bound(Outcome::NotDone, self.accept(record)).await?;
            pending.by(deadline).await
        })
    }

    /// Appends records in one request, and waits until they are durable. Returns their offsets,
    /// which follow one another unless a part had become durable before the request was sent
    /// again. All records together are bounded by [`MAX_RECORD_BYTES`](crate::MAX_RECORD_BYTES).
    pub fn append_batch(&self, batch: Batch) -> Call<'_, Vec<i64>> {
        let records: Vec<wire::Record> = batch.records.into_iter().map(Into::into).collect();
        let (expected_end, atomic, check) = (batch.expected_end, batch.atomic, batch.check);
        Call::new(move |deadline| async move {
            if records.is_empty() {
                return Err(Error::invalid("the batch has no records"));
            }
            if expected_end.is_some_and(|end| end < 0) {
                return Err(Error::invalid("the expected end of an append is negative"));
            }
            let conditions = (expected_end, atomic, check.map(TryInto::try_into).transpose()?);
            records.iter().try_for_each(check_time)?;
            let size = records.iter().map(wire::Record::size).sum();
            check_size(size, records.len())?;
            let permits = deadline.bound(Outcome::NotDone, self.shared.reserve(size)).await?;
            let (at, answers) = self.shared.accept(|backlog| backlog.add_batch(&records, conditions, permits))?;
            let mut offsets = Vec::with_capacity(answers.len());
            for answer in answers {
                offsets.push(Pending::new(self.shared.clone(), at, answer).by(deadline).await?);
            }
            Ok(offsets)
        })
    }

    /// Waits until every record accepted before has its answer, good or bad, without lingering.
    pub fn flush(&self) -> Call<'_, ()> {
        Call::new(move |deadline| self.flush_by(deadline))
    }

    async fn flush_by(&self, deadline: Deadline) -> Result<(), Error> {
        let settled = match self.shared.backlog().newest() {
            None => return Ok(()),
            Some(last) => {
                let (done, settled) = oneshot::channel();
                last.urgent = true;
                last.settled.push(done);
                settled
            }
        };
        self.shared.wake();
        let wait = async {
            let _ = settled.await; // it is settled also when nobody can say so any more
            Ok(())
        };
        deadline.bound(Outcome::MaybeDone, wait).await
    }

    /// Accepts nothing more, waits for the answers that are missing and closes the session. With
    /// [`Call::within`], what has no answer in time fails; the session then stays until its lease
    /// runs out.
    pub fn close(&self) -> Call<'_, ()> {
        Call::new(move |deadline| async move {
            self.shared.backlog().stop(&Error::closed("producer", Outcome::NotDone));
            let flushed = self.flush_by(deadline).await;
            self.shared.end();
            let running = self.running.lock().expect("not poisoned").take();
            if let Some(running) = running {
                let _ = running.await; // it fails only with its runtime
            }
            flushed?;
            self.session.close(deadline).await
        })
    }

    /// Where the producer stands in its session. It moves with every record that is accepted; and
    /// to 0 in another epoch or session when one fails, unless `end_on_failure` is set.
    pub fn position(&self) -> Position {
        self.shared.backlog().position()
    }

    /// What the producer has done and is doing, as of now.
    pub fn stats(&self) -> Stats {
        self.shared.backlog().stats()
    }

    /// The session now; none without one.
    pub fn session(&self) -> Option<Session> {
        self.shared.backlog().session
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.backlog().stop(&Error::closed("producer", Outcome::NotDone));
        self.shared.end();
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("log", &self.log).field("position", &self.position()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::{Client, Reason};

    #[tokio::test]
    async fn a_time_that_no_message_holds_is_refused_by_every_append() {
        let client = Client::new(["127.0.0.1:1"]).unwrap();
        let shared = Arc::new(Shared::new(ProducerOptions::default()));
        let session = ProducerSession::new(client.calls.clone(), "orders", shared.clone());
        let producer = Producer { log: "orders".into(), shared, session, running: Mutex::new(None) };
        let right = || NewRecord::from("v");
        let wrong = || NewRecord { timestamp: Some(UNIX_EPOCH + Duration::from_secs(253_402_300_800)), ..right() };
        let soon = Duration::from_secs(1); // what is accepted has no answer
        for refused in [
            producer.send(wrong()).await.map(|_| ()),
            producer.append(wrong()).within(soon).await.map(|_| ()),
            producer.append_batch([right(), wrong()].into_iter().collect()).within(soon).await.map(|_| ()),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(
                (error.reason(), error.outcome(), error.retryable()),
                (&Reason::Invalid, Outcome::NotDone, false)
            );
        }
        assert_eq!(producer.stats().buffered_bytes, 0);
    }
}
