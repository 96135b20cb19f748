use std::time::Duration;

use crate::checks::Check;
use crate::errors::{Error, Position};
use crate::records::NewRecord;

/// How a producer uses sessions, which make appends at most once and in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sessions {
    /// It opens a session of its own.
    #[default]
    New,
    /// It continues the session of an earlier producer where its position was. Of a position
    /// without a session it opens a new one, of the same log.
    Resume(Position),
    /// None: every request is sent once; a lost answer is in doubt, and a refusal stands alone.
    None,
}

/// How a producer sends.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// Requests that wait for their answers, counted before the bytes leave; records that come
    /// while all are out leave together. None: up to 4 of any size, and up to 64 of at least
    /// 64 KiB.
    pub max_in_flight: Option<usize>,
    /// The same in bytes (16 MiB); a larger request goes alone.
    pub max_in_flight_bytes: usize,
    /// Closes a request when the next record would make it larger (1 MiB).
    pub max_request_bytes: usize,
    /// Bytes of records that have been accepted and have no answer (64 MiB); beyond, appends wait.
    pub buffer_bytes: usize,
    /// Holds a request that is not full back for so long, for more records to join it (zero).
    pub linger: Duration,
    /// How long the session outlives the last request (60 s). An idle producer renews it.
    pub lease: Duration,
    /// From [`Admin::acquire_writer`](crate::Admin::acquire_writer): appends fail with
    /// [`Reason::Fenced`](crate::Reason::Fenced) once there is a newer one. 0: none.
    pub writer_term: u64,
    /// How it uses sessions.
    pub session: Sessions,
    /// The first record that fails ends the producer, so that each record has the sequence that
    /// its position said.
    pub end_on_failure: bool,
    /// How long a record may be without an answer, re-sends included (30 s); none: for ever.
    pub record_timeout: Option<Duration>,
}

impl Default for ProducerOptions {
    fn default() -> ProducerOptions {
        ProducerOptions {
            max_in_flight: None,
            max_in_flight_bytes: 16 << 20,
            max_request_bytes: 1 << 20,
            buffer_bytes: 64 << 20,
            linger: Duration::ZERO,
            lease: Duration::from_secs(60),
            writer_term: 0,
            session: Sessions::New,
            end_on_failure: false,
            record_timeout: Some(Duration::from_secs(30)),
        }
    }
}

/// The most that one producer buffers.
const MAX_BUFFER: usize = 1 << 30;

impl ProducerOptions {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let limits =
            [self.max_in_flight.unwrap_or(1), self.max_in_flight_bytes, self.max_request_bytes, self.buffer_bytes];
        if limits.contains(&0) || self.lease.is_zero() || self.record_timeout.is_some_and(|t| t.is_zero()) {
            return Err(Error::invalid("a limit of the producer is 0"));
        }
        if self.buffer_bytes > MAX_BUFFER {
            return Err(Error::invalid(format!("buffer_bytes is {}, the limit is {MAX_BUFFER}", self.buffer_bytes)));
        }
        Ok(())
    }

    pub(crate) fn in_session(&self) -> bool {
        self.session != Sessions::None
    }
}

/// Records that are appended in one request: [`Producer::append_batch`](crate::Producer::append_batch).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// At least one.
    pub records: Vec<NewRecord>,
    /// They are appended only if the log ends exactly there, with all that was accepted before;
    /// else the error is [`Reason::EndMismatch`](crate::Reason::EndMismatch).
    pub expected_end: Option<i64>,
    /// All become durable together or none.
    pub atomic: bool,
    /// All are appended or none, and only if the check holds, with all that was accepted before.
    ///
    /// Else the error is [`Reason::Conflict`](crate::Reason::Conflict), with
    /// [`offset`](crate::Error::offset) and [`key`](crate::Error::key) of a record that matches:
    /// read from `since` on, decide again, and check since where you have read to. Or it is
    /// [`Reason::CheckTooOld`](crate::Reason::CheckTooOld), if the log cannot decide the check from
    /// so far back, but only from [`start_offset`](crate::Error::start_offset) on: read up to there.
    /// In both cases nothing was appended. An append that was accepted and is sent again succeeds.
    /// The caller needs the right to read the log.
    pub check: Option<Check>,
}

impl<R: Into<NewRecord>> FromIterator<R> for Batch {
    fn from_iter<I: IntoIterator<Item = R>>(records: I) -> Batch {
        Batch { records: records.into_iter().map(Into::into).collect(), ..Batch::default() }
    }
}
