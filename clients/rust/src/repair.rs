//! What becomes of requests between two rounds of a producer.
use std::time::Duration;

use tokio::time::sleep;

use crate::backlog::Interruption;
use crate::errors::{Error, Outcome, Position};
use crate::logs::{Resolution, ResolveState};
use crate::pauses::Pauses;
use crate::reason::Reason;
use crate::rounds::Rounds;
use crate::wire;

/// The log is asked for so long, even if the oldest record has hardly any time left.
const RESOLVE_AT_LEAST: Duration = Duration::from_secs(1);

impl Rounds {
    /// Decides what becomes of the requests that a round left without an answer:
    ///
    /// ```text
    /// producer or client closed     all fail
    /// no session                    what was sent fails: sending again could append twice
    /// another try may help          all stay and are sent again, in order
    /// no answer for too long        all fail, what was sent as in doubt
    /// the session is gone, or
    /// the log refused for good      what is in doubt is resolved, the rest fails; if all that
    ///                               was sent is in the log, nothing does
    /// ```
    pub(crate) async fn repair(&mut self, mut interruption: Interruption) {
        if self.shared.ended() {
            interruption = Error::closed("producer", Outcome::NotDone).into();
        }
        self.end_stream(&interruption);
        let error = &interruption.error;
        if error.elsewhere() {
            self.route.elsewhere(&self.calls, error);
        }
        let fails = match error.reason() {
            // Unless the answer came while the stream was being ended.
            Reason::TimedOut => self.shared.backlog().overdue(),
            reason => *reason == Reason::Closed,
        };
        if fails {
            self.shared.backlog().fail(&interruption);
        } else if !self.shared.options.in_session() {
            self.fail_sent(&interruption);
        } else if error.ends_session() {
            self.resolve(false).await;
            let mut backlog = self.shared.backlog();
            let doubtful = backlog.window.doubtful();
            backlog.continue_or_fail(&interruption);
            if doubtful {
                backlog.stop(error);
            } else {
                backlog.forget();
            }
        } else if !error.again() {
            self.resolve(true).await;
            self.shared.backlog().continue_or_fail(&interruption);
        }
    }

    /// Takes note of what the stream that ended has sent: it may be in the log, unless an answer
    /// says more. Of the request that was refused the refusal does, and in a session that has
    /// ended nothing sent behind it can be in the log.
    fn end_stream(&self, Interruption { error, refused }: &Interruption) {
        let mut backlog = self.shared.backlog();
        let sent = backlog.window.sent;
        for request in backlog.window.flight.iter_mut().take(sent) {
            if *refused == Some(request.id) {
                request.outcome.also(error.outcome());
            } else if refused.is_none() || !error.ends_session() {
                request.outcome.also(Outcome::MaybeDone);
            }
        }
        backlog.window.reset();
    }

    /// Without a session: what was sent is in doubt, and the rest fails only for good.
    fn fail_sent(&self, interruption: &Interruption) {
        let error = &interruption.error;
        let mut backlog = self.shared.backlog();
        while backlog.window.flight.front().is_some_and(|r| r.outcome != Outcome::NotDone) {
            backlog.settle_error(&error.clone().with_outcome(Outcome::MaybeDone));
        }
        if !error.again() {
            backlog.fail(interruption);
        }
    }

    /// Asks the log what became of the requests in doubt. What is not resolved in time, or before
    /// a close, stays in doubt.
    async fn resolve(&self, last: bool) {
        let waited = self.shared.backlog().oldest().map(|r| r.accepted.elapsed()).unwrap_or_default();
        let limit = self.shared.options.record_timeout.map(|t| t.saturating_sub(waited).max(RESOLVE_AT_LEAST));
        tokio::select! {
            _ = self.resolve_all(last) => (), // an error leaves them in doubt
            () = self.shared.until_ended() => (),
            () = sleep(limit.unwrap_or_default()), if limit.is_some() => (),
        }
    }

    /// Requests that are in the log get their offsets. The first that never will be clears those
    /// behind it too, as a session has no gaps.
    async fn resolve_all(&self, last: bool) -> Result<(), Error> {
        loop {
            let (place, count) = match self.shared.backlog().window.flight.front() {
                Some(request) if request.outcome != Outcome::NotDone => (request.place, request.count as u64),
                _ => return Ok(()),
            };
            let found = self.resolve_one(place, last).await?;
            self.note(&found);
            let mut end = found;
            if found.state == ResolveState::Committed && count > 1 {
                // A large request may be in the log in pieces: the last record says whether it is in one.
                end = self.resolve_one(Position { next: place.next + count - 1, ..place }, last).await?;
            }
            if end.state != ResolveState::Committed {
                return Ok(());
            }
            let appended =
                wire::Appended { first_offset: found.offset, end_offset: end.offset + 1, ..Default::default() };
            self.shared.backlog().settle(&appended);
            self.continues();
        }
    }

    fn note(&self, found: &Resolution) {
        let mut backlog = self.shared.backlog();
        if let Some(session) = &mut backlog.session {
            session.epoch = session.epoch.max(found.epoch);
        }
        if found.state == ResolveState::Never {
            for request in &mut backlog.window.flight {
                request.outcome = Outcome::NotDone; // of all sendings together
            }
        }
    }

    /// Asks until the answer is not "on its way".
    async fn resolve_one(&self, at: Position, last: bool) -> Result<Resolution, Error> {
        let mut pauses = Pauses::new();
        loop {
            let found = self.session.admin.resolve(&self.log, at, last).await?;
            if found.state != ResolveState::Pending {
                return Ok(found);
            }
            pauses.wait().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use bytes::Bytes;
    use tokio::time::timeout;

    use super::*;
    use crate::calls::Calls;
    use crate::peers::Peers;
    use crate::producer_options::ProducerOptions;
    use crate::producer_session::ProducerSession;
    use crate::shared::Shared;

    #[tokio::test]
    async fn what_is_in_doubt_is_asked_for_until_the_producer_ends() {
        let nobody = Peers::new(vec!["127.0.0.1:1".into()], false, None).unwrap();
        let calls = Arc::new(Calls::new(nobody, Duration::MAX, None, None).unwrap());
        let shared = Arc::new(Shared::new(ProducerOptions::default()));
        let session = ProducerSession::new(calls.clone(), "orders", shared.clone());
        let rounds = Rounds::new(calls, "orders", shared.clone(), session);
        let record = wire::Record { value: Some(Bytes::from_static(b"v")), ..Default::default() };
        {
            let mut backlog = shared.backlog();
            let _ = backlog.add(&record, 1);
            let _ = backlog.send_next();
            backlog.window.flight[0].outcome = Outcome::MaybeDone;
        }
        shared.interrupt(Error::new(Reason::TimedOut, "no answer").into());
        let mut resolving = pin!(rounds.resolve(false));
        assert!(timeout(Duration::from_millis(50), &mut resolving).await.is_err());
        shared.end();
        timeout(Duration::from_secs(20), resolving).await.unwrap();
    }

    #[tokio::test]
    async fn records_that_are_not_too_old_outlive_one_that_was() {
        let nobody = Peers::new(vec!["127.0.0.1:1".into()], false, None).unwrap();
        let calls = Arc::new(Calls::new(nobody, Duration::MAX, None, None).unwrap());
        let options = ProducerOptions { record_timeout: Some(Duration::from_secs(4)), ..Default::default() };
        let shared = Arc::new(Shared::new(options));
        let session = ProducerSession::new(calls.clone(), "orders", shared.clone());
        let mut rounds = Rounds::new(calls, "orders", shared.clone(), session);
        let record = wire::Record { value: Some(Bytes::from_static(b"v")), ..Default::default() };
        let (_, mut answer) = shared.backlog().add(&record, 1);
        let _ = shared.backlog().send_next();
        let timed_out = || Error::new(Reason::TimedOut, "no answer").with_retry();
        rounds.repair(timed_out().into()).await;
        assert!(answer.try_recv().is_err(), "it has no answer yet");
        shared.backlog().window.flight[0].accepted -= Duration::from_secs(5);
        rounds.repair(timed_out().into()).await;
        assert_eq!(answer.try_recv().unwrap().unwrap_err().reason(), &Reason::TimedOut);

        shared.interrupt(timed_out().into());
        shared.forget_timeout();
        assert!(!shared.is_interrupted());
        shared.interrupt(Error::closed("client", Outcome::NotDone).into());
        shared.forget_timeout();
        assert!(shared.is_interrupted());
    }
}
