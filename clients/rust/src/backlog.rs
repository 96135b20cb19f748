use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use crate::codec::Outgoing;
use crate::errors::{Error, Outcome, Position};
use crate::logs::Session;
use crate::producer_options::ProducerOptions;
use crate::reason::Reason;
use crate::records::MAX_RECORD_BYTES;
use crate::request::{Answer, Request, State};
use crate::stats::Stats;
use crate::window::Window;
use crate::wire;

/// Why a stream ended or must end.
#[derive(Clone)]
pub(crate) struct Interruption {
    pub error: Error,
    /// Id of the request whose answer it was.
    pub refused: Option<u64>,
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Interruption {
        Interruption { error, refused: None }
    }
}

/// Where a record is: in which request, and its index there.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    pub request: u64,
    pub index: u64,
}

/// What can be sent next.
pub(crate) enum Sendable {
    Now(Box<Outgoing>),
    /// When what lingers is to be sent.
    At(Instant),
    Nothing,
}

/// Requests from the one that is forming to those in flight, and the session that numbers them.
pub(crate) struct Backlog {
    pub window: Window,
    forming: Option<Request>, // takes records
    queue: VecDeque<Request>, // full, not sent yet
    /// Why nothing is accepted any more.
    pub ended: Option<Error>,
    pub session: Option<Session>,
    /// Sequence of the next record of a batch to be closed.
    pub next: u64,
    pub log_id: u64,
    /// When the log last answered.
    pub last_sign: Instant,
    /// When a node last renewed the lease of the session, perhaps another one.
    pub renewed: Instant,
    /// The address of the node that has what was sent; empty: none has had anything.
    pub node: String,
    /// Permits for the bytes of the buffer. Closed when nothing is accepted any more.
    pub room: Arc<Semaphore>,
    options: Arc<ProducerOptions>,
    /// What has been done.
    pub counts: Stats,
    request_bytes: usize,
    requests: u64, // made so far
}

impl Backlog {
    pub fn new(options: Arc<ProducerOptions>) -> Backlog {
        Backlog {
            window: Window::new(options.max_in_flight, options.max_in_flight_bytes),
            forming: None,
            queue: VecDeque::new(),
            ended: None,
            session: None,
            next: 0,
            log_id: 0,
            last_sign: Instant::now(),
            renewed: Instant::now(),
            node: String::new(),
            room: Arc::new(Semaphore::new(options.buffer_bytes)),
            counts: Stats::default(),
            request_bytes: options.max_request_bytes.min(options.buffer_bytes).min(MAX_RECORD_BYTES),
            options,
            requests: 0,
        }
    }

    fn new_request(&mut self) -> Request {
        self.requests += 1;
        Request::new(self.requests)
    }

    /// Puts a record, for which there is room, into a request.
    pub fn add(&mut self, record: &wire::Record, permits: usize) -> (Placed, oneshot::Receiver<Answer>) {
        if self.forming.as_ref().is_some_and(|r| r.size + record.size() > self.request_bytes) {
            self.queue.extend(self.forming.take());
        }
        let mut request = self.forming.take().unwrap_or_else(|| self.new_request());
        let placed = Placed { request: request.id, index: request.count as u64 };
        request.permits += permits;
        let answer = request.add(record);
        self.forming = Some(request);
        (placed, answer)
    }

    /// Puts records, for which there is room, into a request of their own, behind what was
    /// accepted before.
    pub fn add_batch(
        &mut self,
        records: &[wire::Record],
        (expected_end, atomic, check): (Option<i64>, bool, Option<wire::CheckedAppend>),
        permits: usize,
    ) -> (Placed, Vec<oneshot::Receiver<Answer>>) {
        self.queue.extend(self.forming.take());
        let mut request = self.new_request();
        (request.expected_end, request.atomic, request.permits) = (expected_end, atomic, permits);
        request.check = check;
        let answers = records.iter().map(|record| request.add(record)).collect();
        let placed = Placed { request: request.id, index: 0 };
        self.queue.push_back(request);
        (placed, answers)
    }

    /// The oldest request that is not in the window.
    fn candidate(&self) -> Option<&Request> {
        self.queue.front().or(self.forming.as_ref())
    }

    /// Reports whether a request would be sent if there were a stream.
    pub fn sendable(&self) -> bool {
        self.candidate().is_some_and(|r| self.window.admits(r.size))
    }

    /// The request that was accepted last and has no answer.
    pub fn newest(&mut self) -> Option<&mut Request> {
        let flight = self.window.flight.iter_mut().rev().find(|r| r.state != State::Failed);
        self.forming.as_mut().or(self.queue.back_mut()).or(flight)
    }

    /// The request that has waited longest for its answer.
    pub fn oldest(&self) -> Option<&Request> {
        self.window.waiting().next().or(self.candidate())
    }

    /// Reports whether the oldest request has waited too long for its answer.
    pub fn overdue(&self) -> bool {
        let limit = self.options.record_timeout;
        limit.is_some_and(|limit| self.oldest().is_some_and(|r| r.accepted.elapsed() > limit))
    }

    /// The next request for this stream, if the window has room for it and it does not linger.
    pub fn send_next(&mut self) -> Sendable {
        if self.window.held {
            return Sendable::Nothing;
        }
        if self.window.sent == self.window.flight.len() {
            let Some(candidate) = self.candidate().filter(|r| self.window.admits(r.size)) else {
                return Sendable::Nothing;
            };
            let linger = self.options.linger;
            if self.queue.is_empty() && !candidate.urgent && candidate.accepted.elapsed() < linger {
                // None: so far away that no clock shows it.
                return candidate.accepted.checked_add(linger).map_or(Sendable::Nothing, Sendable::At);
            }
            self.close_batch();
        }
        let low_water = self.window.low_water();
        let request = &mut self.window.flight[self.window.sent];
        self.window.sent += 1;
        self.counts.resent += u64::from(request.sent.is_some());
        request.sent.get_or_insert_with(Instant::now);
        let mut message = request.message();
        message.head.low_water = if request.place.session == 0 { 0 } else { low_water };
        message.head.log_id = self.log_id;
        message.head.writer_term = self.options.writer_term;
        Sendable::Now(Box::new(message))
    }

    /// What has been done and is under way.
    pub fn stats(&self) -> Stats {
        let flying = || self.window.waiting();
        let free = self.room.available_permits();
        Stats {
            in_flight_requests: flying().count(),
            in_flight_records: flying().map(|r| r.count).sum(),
            in_flight_bytes: flying().map(|r| r.size).sum(),
            buffered_bytes: self.options.buffer_bytes.saturating_sub(free),
            ..self.counts.clone()
        }
    }

    /// Moves the candidate into the window and numbers its records.
    fn close_batch(&mut self) {
        let Some(mut request) = self.queue.pop_front().or_else(|| self.forming.take()) else {
            return;
        };
        let (session, epoch) = self.session.map_or((0, 0), |s| (s.id, s.epoch));
        request.close_batch(Position { log_id: self.log_id, session, epoch, next: self.next });
        if session != 0 {
            self.next += request.count as u64;
        }
        self.window.push(request);
    }

    /// Takes the oldest request in flight out of the window.
    pub fn leave(&mut self) {
        self.last_sign = Instant::now();
        if let Some(request) = self.window.pop()
            && request.state != State::Failed
        {
            self.room.add_permits(request.permits);
        }
    }

    /// Gives the records of the oldest request in flight their offsets. False: the answer does
    /// not fit the request, whose records are in the log.
    pub fn settle(&mut self, appended: &wire::Appended) -> bool {
        let Some(request) = self.window.flight.front_mut() else {
            return false;
        };
        let one = [wire::OffsetRange { first: appended.first_offset, end: appended.end_offset }];
        let ranges = if appended.ranges.is_empty() { &one[..] } else { &appended.ranges };
        let count: i128 = ranges.iter().map(|r| i128::from(r.end) - i128::from(r.first)).sum();
        let fits = count == request.count as i128 && ranges.iter().all(|r| r.first <= r.end);
        if fits {
            let took = request.sent.map(|sent| sent.elapsed()).unwrap_or_default();
            self.counts.appended(request.count, request.size, took);
            request.settle(ranges.iter().flat_map(|r| r.first..r.end));
        } else {
            let error = Error::new(Reason::OutcomeForgotten, "the answer does not match the request");
            self.counts.failed += request.count as u64;
            request.fail(&error.with_outcome(Outcome::Done));
        }
        self.leave();
        fits
    }

    /// Gives the records of the oldest request in flight an error.
    pub fn settle_error(&mut self, error: &Error) {
        if let Some(request) = self.window.flight.front_mut() {
            self.counts.failed += request.count as u64;
            request.fail(error);
            self.leave();
        }
    }

    /// Where a record stands in its session, while it has no answer.
    pub fn place(&self, at: Placed) -> Option<Position> {
        let mut next = self.next;
        for request in self.queue.iter().chain(&self.forming) {
            if request.id == at.request {
                return Some(Position { next: next + at.index, ..self.position() }).filter(|p| p.session != 0);
            }
            next += request.count as u64;
        }
        let request = self.window.waiting().find(|r| r.id == at.request)?;
        Some(Position { next: request.place.next + at.index, ..request.place }).filter(|p| p.session != 0)
    }

    /// Where the next record stands that will be accepted.
    pub fn position(&self) -> Position {
        let accepted: usize = self.queue.iter().chain(&self.forming).map(|r| r.count).sum();
        let (session, epoch) = self.session.map_or((0, 0), |s| (s.id, s.epoch));
        Position { log_id: self.log_id, session, epoch, next: self.next + accepted as u64 }
    }

    /// Keeps what was accepted behind an interruption that leaves nothing that was sent without a
    /// result: what was refused is in the log by an earlier sending, or it was the session that
    /// ended. It goes to the next epoch, which a producer that ends on failures never begins.
    /// Otherwise it fails.
    pub fn continue_or_fail(&mut self, interruption: &Interruption) {
        let Interruption { error, refused } = interruption;
        let resolved = refused.is_some() || error.ends_session();
        if !self.window.flight.is_empty() || !resolved || self.options.end_on_failure {
            self.fail(interruption);
        } else {
            self.begin_epoch(error);
        }
    }

    /// Settles everything without a result: the request that the interruption is about, or else
    /// the oldest, with its error, and the others as behind it. The epoch ends, so that later
    /// records are not taken for those that failed.
    pub fn fail(&mut self, interruption: &Interruption) {
        let Interruption { error, refused } = interruption;
        let mut open = mem::take(&mut self.queue);
        open.extend(self.forming.take());
        if self.options.end_on_failure || matches!(error.reason(), Reason::LogReplaced | Reason::Closed) {
            self.stop(error);
        }
        self.begin_epoch(error);
        let waiting = self.window.flight.iter_mut().filter(|r| r.state != State::Failed);
        for (n, request) in waiting.chain(&mut open).enumerate() {
            let own = refused.map_or(n == 0, |id| id == request.id);
            let outcome = request.outcome;
            self.counts.failed += request.count as u64;
            request.fail(&if own { error.clone().with_outcome(outcome) } else { Error::behind(error, outcome) });
            self.room.add_permits(request.permits);
        }
        self.window.fail();
    }

    fn begin_epoch(&mut self, above: &Error) {
        if let Some(session) = &mut self.session {
            session.epoch = session.epoch.max(above.epoch().unwrap_or_default()) + 1;
            self.next = 0;
        }
    }

    /// Lets the producer accept nothing more.
    pub fn stop(&mut self, error: &Error) {
        self.ended.get_or_insert_with(|| error.clone().with_outcome(Outcome::NotDone));
        self.room.close();
    }

    /// Ends the producer's part in its session: the next round opens a new one.
    pub fn forget(&mut self) -> Option<Session> {
        self.next = 0;
        self.session.take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    fn backlog(options: ProducerOptions) -> Backlog {
        let mut backlog = Backlog::new(Arc::new(options));
        backlog.session = Some(Session { id: 9, epoch: 0, lease: Default::default(), log_id: 3 });
        backlog.log_id = 3;
        backlog
    }

    fn add(backlog: &mut Backlog) -> (Placed, oneshot::Receiver<Answer>) {
        let record = wire::Record { value: Some(Bytes::from_static(b"v")), ..Default::default() };
        backlog.add(&record, 1)
    }

    fn one_by_one() -> ProducerOptions {
        ProducerOptions { max_request_bytes: 1, ..Default::default() }
    }

    #[test]
    fn records_are_numbered_without_a_gap_and_keep_their_place() {
        let mut backlog = backlog(one_by_one());
        let records: Vec<_> = (0..3).map(|_| add(&mut backlog)).collect();
        let places = |b: &Backlog| records.iter().map(|(at, _)| b.place(*at).unwrap().next).collect::<Vec<_>>();
        assert_eq!(places(&backlog), [0, 1, 2]);
        let Sendable::Now(message) = backlog.send_next() else { panic!("nothing to send") };
        assert_eq!((message.head.first_sequence, message.head.session_id, message.head.log_id), (0, 9, 3));
        assert_eq!(places(&backlog), [0, 1, 2]);
        assert_eq!(backlog.position().next, 3);
    }

    #[test]
    fn a_record_may_linger_for_ever() {
        let mut backlog = backlog(ProducerOptions { linger: Duration::MAX, ..Default::default() });
        add(&mut backlog);
        assert!(matches!(backlog.send_next(), Sendable::Nothing));
        backlog.newest().unwrap().urgent = true;
        assert!(matches!(backlog.send_next(), Sendable::Now(_)));
    }

    #[test]
    fn answers_that_do_not_fit_are_not_believed() {
        let mut backlog = backlog(one_by_one());
        for end in [i64::MAX, 5, 7, -1] {
            let (_, mut answer) = add(&mut backlog);
            assert!(matches!(backlog.send_next(), Sendable::Now(_)));
            assert!(!backlog.settle(&wire::Appended { first_offset: 5, end_offset: end, ..Default::default() }));
            let error = answer.try_recv().unwrap().unwrap_err();
            assert_eq!((error.reason(), error.outcome()), (&Reason::OutcomeForgotten, Outcome::Done));
        }
        let (_, mut answer) = add(&mut backlog);
        assert!(matches!(backlog.send_next(), Sendable::Now(_)));
        assert!(backlog.settle(&wire::Appended { first_offset: 5, end_offset: 6, ..Default::default() }));
        assert_eq!(answer.try_recv().unwrap().unwrap(), 5);
    }

    #[test]
    fn what_fails_leaves_room_and_ends_the_epoch() {
        let mut backlog = backlog(ProducerOptions { buffer_bytes: 10, ..one_by_one() });
        let room = backlog.room.clone();
        room.try_acquire_many(2).unwrap().forget();
        let (mut first, mut second) = (add(&mut backlog).1, add(&mut backlog).1);
        assert!(matches!(backlog.send_next(), Sendable::Now(_)));
        backlog.fail(&Error::new(Reason::Sealed, "no more").into());
        assert_eq!(first.try_recv().unwrap().unwrap_err().reason(), &Reason::Sealed);
        assert_eq!(second.try_recv().unwrap().unwrap_err().reason(), &Reason::BehindFailed);
        assert_eq!((room.available_permits(), backlog.position().epoch, backlog.position().next), (10, 1, 0));
        assert!(backlog.newest().is_none());
        backlog.leave(); // the answer of the first, which has failed
        assert_eq!(room.available_permits(), 10);
    }
}
