use std::mem;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::codec::{Outgoing, add_record};
use crate::errors::{Error, Outcome, Position};
use crate::wire;

/// What becomes of one record.
pub(crate) type Answer = Result<i64, Error>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It forms or is queued, and has no place in its session.
    Accepted,
    /// It is in the window.
    InFlight,
    /// It was settled with one in front of it, while its own answer is still to come.
    Failed,
}

/// Records that travel together: accepted, closed, sent, perhaps sent again, and settled once.
pub(crate) struct Request {
    /// Unique in its producer.
    pub id: u64,
    pub accepted: Instant,
    records: BytesMut,
    closed: Bytes, // the records, once in flight
    waiters: Vec<oneshot::Sender<Answer>>,
    /// Who waits until it is settled, well or not.
    pub settled: Vec<oneshot::Sender<()>>,
    pub expected_end: Option<i64>,
    pub atomic: bool,
    /// With the records, in the place of `records`.
    pub check: Option<wire::CheckedAppend>,
    /// How many records it holds.
    pub count: usize,
    /// About how many bytes they take.
    pub size: usize,
    /// What they take of the producer's buffer.
    pub permits: usize,
    /// It does not linger.
    pub urgent: bool,
    pub state: State,
    /// Place of the first record, once in flight.
    pub place: Position,
    /// When it was first sent.
    pub sent: Option<Instant>,
    /// Of all sendings that have ended.
    pub outcome: Outcome,
}

impl Request {
    pub fn new(id: u64) -> Request {
        Request {
            id,
            accepted: Instant::now(),
            records: BytesMut::new(),
            closed: Bytes::new(),
            waiters: Vec::new(),
            settled: Vec::new(),
            expected_end: None,
            atomic: false,
            check: None,
            count: 0,
            size: 0,
            permits: 0,
            urgent: false,
            state: State::Accepted,
            place: Position::default(),
            sent: None,
            outcome: Outcome::NotDone,
        }
    }

    /// Adds a record, and returns where its answer comes.
    pub fn add(&mut self, record: &wire::Record) -> oneshot::Receiver<Answer> {
        match &mut self.check {
            Some(check) => check.records.push(record.clone()),
            None => add_record(record, &mut self.records),
        }
        self.count += 1;
        self.size += record.size();
        let (waiter, answer) = oneshot::channel();
        self.waiters.push(waiter);
        answer
    }

    /// Gives the request its place in the session.
    pub fn close_batch(&mut self, place: Position) {
        self.place = place;
        self.state = State::InFlight;
        self.closed = mem::take(&mut self.records).freeze();
    }

    /// The message of the request, but for what is said of the log and the session's progress.
    pub fn message(&self) -> Outgoing {
        let head = wire::AppendRequest {
            session_id: self.place.session,
            epoch: self.place.epoch,
            first_sequence: self.place.next,
            expected_end: self.expected_end,
            atomic: self.atomic,
            checked: self.check.clone(),
            ..Default::default()
        };
        Outgoing { head, records: self.closed.clone() }
    }

    /// Gives the records their offsets.
    pub fn settle(&mut self, offsets: impl Iterator<Item = i64>) {
        for (waiter, offset) in mem::take(&mut self.waiters).into_iter().zip(offsets) {
            let _ = waiter.send(Ok(offset)); // nobody may wait any more
        }
        self.end();
    }

    /// Gives the records an error. One in doubt gets its place, with which the log resolves it.
    pub fn fail(&mut self, error: &Error) {
        for (waiter, n) in mem::take(&mut self.waiters).into_iter().zip(0..) {
            let at = Position { next: self.place.next + n, ..self.place };
            let _ = waiter.send(Err(error.clone().at(Some(at))));
        }
        self.end();
    }

    fn end(&mut self) {
        self.records = BytesMut::new();
        self.closed = Bytes::new();
        self.check = None;
        for done in self.settled.drain(..) {
            let _ = done.send(());
        }
    }
}
