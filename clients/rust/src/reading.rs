use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::Streaming;

use crate::call::Deadline;
use crate::calls::{self, Calls};
use crate::errors::{Error, Outcome};
use crate::pauses::Pauses;
use crate::read_options::{FailedRecord, Freshness, Prefer, ReadOptions, Start};
use crate::reader::Progress;
use crate::reason::Reason;
use crate::records::Record;
use crate::route::{Route, ToDialled, ToLeader, ToReplica};
use crate::silence::{Waiting, attend};
use crate::token::Shown;
use crate::wire;
use crate::wire::read_request;

/// How often in a row servers that can be reached may break a stream before its first frame,
/// without saying that another try may help.
const MAX_BROKEN_STREAMS: usize = 10;

/// Gets the frames of a read from whatever nodes serve it.
pub(crate) struct Reading {
    calls: Arc<Calls>,
    log: String,
    options: ReadOptions,
    route: Route,
    progress: Progress,
    log_id: u64,
    next: Option<i64>, // none: known with the first frame
    end: i64,
    age: Option<Duration>,
    placed: bool, // a frame has come
    given: u64,   // records
    took: u64,    // about how many bytes
    stream: Option<Streaming<wire::ReadResponse>>,
    trouble: Trouble,
    shown: Shown,
    failure: Option<Error>, // final
    ended: bool,
}

/// What a read has had since its last frame.
struct Trouble {
    count: usize,
    broken: usize,
    began: Instant,
    pauses: Pauses,
}

impl Trouble {
    fn new() -> Trouble {
        Trouble { count: 0, broken: 0, began: Instant::now(), pauses: Pauses::new() }
    }
}

impl Reading {
    pub fn new(calls: Arc<Calls>, log: &str, options: ReadOptions, progress: Progress) -> Reading {
        let route = match (&options.prefer, options.freshness) {
            (Some(Prefer::Follower), _) => Route::Replica(ToReplica::new(log, None)),
            (Some(Prefer::Nearest(labels)), _) => Route::Replica(ToReplica::new(log, Some(labels.clone()))),
            (None, Freshness::Linearizable) => Route::Leader(ToLeader::new(log, true)),
            (None, _) => Route::Dialled(ToDialled::default()),
        };
        let next = match options.start {
            Start::Offset(offset) => Some(offset),
            _ => None,
        };
        let shown = calls.shown();
        Reading {
            calls,
            log: log.to_string(),
            route,
            progress,
            log_id: options.log_id,
            next,
            end: 0,
            age: None,
            placed: false,
            given: 0,
            took: 0,
            stream: None,
            trouble: Trouble::new(),
            shown,
            failure: None,
            ended: false,
            options,
        }
    }

    /// Finds the tail, where the read begins there.
    pub async fn open(&mut self, deadline: Deadline) -> Result<(), Error> {
        if self.options.start != Start::Tail || self.next.is_some() {
            return Ok(());
        }
        let allow_stale = self.options.freshness == Freshness::Any;
        let request = wire::GetInfoRequest { log: self.log.clone(), log_id: self.log_id, allow_stale };
        let found = if allow_stale {
            self.calls.by(&mut self.route, &calls::GET_INFO, request, deadline).await
        } else {
            self.calls.to_leader(&self.log, &calls::GET_INFO, request, deadline).await
        };
        let info = found.map_err(|e| e.with_outcome(Outcome::NotDone))?.info.unwrap_or_default();
        (self.log_id, self.next, self.end) = (info.id, Some(info.end_offset), info.end_offset);
        self.report(Vec::new());
        Ok(())
    }

    /// Says how far the read has come.
    fn report(&self, failed: Vec<FailedRecord>) {
        self.progress.get(|reached| {
            (reached.next, reached.end, reached.log_id) = (self.next, self.end, self.log_id);
            reached.age = self.age;
            reached.note_failed(failed);
        });
    }

    /// Gets records; none: there are no more.
    pub async fn fill(&mut self) -> Result<Vec<Record>, Error> {
        self.open(Deadline::default()).await?;
        loop {
            if let Some(failure) = &self.failure {
                return Err(failure.clone());
            }
            if self.ended || self.done() {
                self.ended = true;
                self.stream = None;
                return Ok(Vec::new());
            }
            let records = self.fetch().await;
            if !records.is_empty() {
                return Ok(records);
            }
        }
    }

    /// Reports whether a limit has been reached, of which a stream that is opened now would know
    /// nothing.
    fn done(&self) -> bool {
        self.options.max_records.is_some_and(|most| self.given >= most)
            || self.options.max_bytes.is_some_and(|most| self.took >= most)
            || self.options.until_offset.is_some_and(|until| self.next.unwrap_or(0) >= until)
    }

    /// Receives one frame, or repairs the stream so that the next call can.
    async fn fetch(&mut self) -> Vec<Record> {
        let mut reached = self.stream.is_some();
        let received = match self.receive(&mut reached).await {
            Ok(received) => received,
            Err(failure) => {
                self.recover(self.shown.failure(self.calls.failure(failure)), reached).await;
                return Vec::new();
            }
        };
        match received {
            Some(frame) => {
                if self.trouble.count > 0 {
                    self.calls.trouble(&self.log, None);
                    self.trouble = Trouble::new();
                }
                self.shown.progressed();
                return self.take(frame).unwrap_or_else(|failure| {
                    self.failure = Some(failure);
                    self.stream = None;
                    Vec::new()
                });
            }
            None if !self.options.follow || self.options.limited() => self.ended = true,
            None => self.recover(Error::unreachable(Outcome::NotDone, "the server ended the stream"), true).await,
        }
        Vec::new()
    }

    /// A frame; none at the end of the stream. A read that follows may not be silent for long; one
    /// that does not relies on the keep-alive of the connection.
    async fn receive(&mut self, reached: &mut bool) -> Result<Option<wire::ReadResponse>, Error> {
        let silence = self.options.follow.then_some(self.options.heartbeat.saturating_mul(3));
        if self.stream.is_none() {
            let channel = self.route.connect(&self.calls).await?;
            *reached = true;
            let opening = self.calls.stream(channel, &calls::READ, self.request(), self.shown.header()?);
            let attended = attend(&self.calls, self.route.asked(&self.calls), Waiting::Answer, opening);
            self.stream = Some(unless_silent(silence, attended).await?);
        }
        let waiting = if self.placed { Waiting::Frame } else { Waiting::Answer };
        match &mut self.stream {
            Some(stream) => {
                let message = self.calls.answer(stream.message());
                let attended = attend(&self.calls, self.route.asked(&self.calls), waiting, message);
                unless_silent(silence, attended).await
            }
            None => Ok(None),
        }
    }

    /// Decides, after a stream could not be opened or broke, whether to try another, and pauses.
    async fn recover(&mut self, failure: Error, reached: bool) {
        self.stream = None;
        let elsewhere = failure.elsewhere() || self.only_here(&failure);
        if elsewhere {
            self.route.elsewhere(&self.calls, &failure);
        }
        let width = if elsewhere { self.route.width(&self.calls, &failure) } else { 1 };
        if !(elsewhere || failure.again()) || !self.worth_another(&failure, reached, width) {
            self.failure = Some(failure);
            return;
        }
        self.calls.trouble(&self.log, Some(&failure));
        if self.trouble.count > 1 {
            self.trouble.pauses.between(width).await;
        }
    }

    /// Reports whether to open another stream: on each of `width` nodes, and then again. A read
    /// that has had a frame waits for its servers for ever; one that has not, or whose bound no
    /// replica keeps, for the retry time.
    fn worth_another(&mut self, failure: &Error, reached: bool, width: usize) -> bool {
        let trouble = &mut self.trouble;
        trouble.count += 1;
        if reached && !(failure.retryable() && *failure.reason() != Reason::Unreachable) {
            trouble.broken += 1;
        }
        let patient = self.placed && *failure.reason() != Reason::Stale;
        let in_time = trouble.began.elapsed() < failure.within(self.calls.retry_time);
        trouble.broken <= MAX_BROKEN_STREAMS && (patient || trouble.count < width || in_time)
    }

    /// Reports whether another replica may do better than the one whose refusal is final there:
    /// one that lags behind what this read has seen, or whose copy is damaged.
    fn only_here(&self, failure: &Error) -> bool {
        match failure.reason() {
            Reason::OffsetBeyondEnd => self.next.is_some_and(|next| next <= self.end),
            Reason::Corrupt => self.route.width(&self.calls, failure) > 1,
            _ => false,
        }
    }

    /// Accepts a frame, and returns its records that are due.
    fn take(&mut self, frame: wire::ReadResponse) -> Result<Vec<Record>, Error> {
        if self.log_id == 0 {
            self.log_id = frame.log_id;
        }
        if frame.log_id != self.log_id {
            let message = format!("log {} with id {} was deleted; another one has its name", self.log, self.log_id);
            return Err(Error::new(Reason::LogReplaced, message).with_fact("log_id", frame.log_id));
        }
        let first = frame.first_offset;
        let next = *self.next.get_or_insert(first);
        let count = frame.records.len() as i64;
        if self.options.selects() && frame.next_offset.is_none() {
            let message = "the server does not know filters and projections: it needs a later version";
            return Err(Error::new(Reason::Unsupported, message));
        }
        let end = frame.next_offset.or_else(|| first.checked_add(count)).unwrap_or(-1);
        let in_place = follow_each_other(&frame.records, first..end, self.options.selects());
        if first > next || first < 0 || end < first || i64::from(frame.record_count) != count || !in_place {
            return Err(Error::new(Reason::Corrupt, "received a frame that does not follow the one before"));
        }
        // Another replica may know less: what was committed once stays so.
        self.end = self.end.max(frame.end_offset);
        (self.age, self.placed) = (frame.age.map(wire::length), true);
        let failed = frame.failed.into_iter().filter(|f| f.offset >= next);
        let failed = failed.map(|f| FailedRecord { offset: f.offset, message: f.message }).collect();
        let until = self.options.until_offset.unwrap_or(i64::MAX).min(end);
        let most = self.options.max_records.map_or(usize::MAX, |most| (most - self.given) as usize);
        let due = frame.records.into_iter().filter(|r| (next..until).contains(&r.offset)).take(most);
        let records: Vec<Record> = if self.options.max_bytes.is_some() {
            due.inspect(|record| self.took += record.size() as u64).map(Record::from).collect()
        } else {
            due.map(Record::from).collect()
        };
        self.given += records.len() as u64;
        self.next = Some(match records.last() {
            Some(last) if records.len() == most => last.offset + 1,
            _ => next.max(until),
        });
        self.report(failed);
        Ok(records)
    }

    /// Asks for what has not been given yet.
    fn request(&self) -> wire::ReadRequest {
        let options = &self.options;
        let from = match (self.next, options.start) {
            (Some(next), _) => read_request::From::Offset(next),
            (None, Start::Time(time)) => read_request::From::Time(time.into()),
            (None, _) => read_request::From::Position(wire::ReadPosition::Start.into()),
        };
        let left = |most: Option<u64>, had: u64| most.map_or(0, |most| i64::try_from(most - had).unwrap_or(i64::MAX));
        wire::ReadRequest {
            log: self.log.clone(),
            log_id: self.log_id,
            from: Some(from),
            follow: options.follow,
            format: wire::ReadFormat::Records.into(),
            heartbeat: Some(wire::span(options.heartbeat)),
            consistency: Some(options.consistency()),
            max_records: left(options.max_records, self.given),
            max_bytes: left(options.max_bytes, self.took),
            until_offset: options.until_offset,
            until_time: options.until_time.map(Into::into),
            filter: options.filter.clone().map(Into::into),
            projection: options.projection.clone().map(Into::into),
            verify: false,
        }
    }
}

/// Reports whether records are in a range and in order, and unless some are left out without a gap.
fn follow_each_other(records: &[wire::Record], range: Range<i64>, gaps: bool) -> bool {
    let mut at = range.start;
    records.iter().all(|record| {
        let in_place = if gaps { (at..range.end).contains(&record.offset) } else { record.offset == at };
        at = record.offset.saturating_add(1);
        in_place
    })
}

async fn unless_silent<T>(time: Option<Duration>, doing: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let Some(time) = time else {
        return doing.await;
    };
    let silent = |_| Err(Error::unreachable(Outcome::NotDone, format!("the server was silent for {time:?}")));
    timeout(time, doing).await.unwrap_or_else(silent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Peers;

    fn reading(options: ReadOptions) -> Reading {
        let peers = Peers::new(vec!["127.0.0.1:1".into()], false, None).unwrap();
        let calls = Arc::new(Calls::new(peers, Duration::ZERO, None, None).unwrap());
        Reading::new(calls, "orders", options, Progress::default())
    }

    fn frame(offsets: Range<i64>) -> wire::ReadResponse {
        let record = |offset| wire::Record { offset, ..Default::default() };
        let record_count = (offsets.end - offsets.start) as i32;
        wire::ReadResponse {
            first_offset: offsets.start,
            record_count,
            log_id: 3,
            end_offset: 100,
            records: offsets.map(record).collect(),
            ..Default::default()
        }
    }

    fn offsets(records: Vec<Record>) -> Vec<i64> {
        records.iter().map(|r| r.offset).collect()
    }

    #[tokio::test]
    async fn frames_follow_each_other() {
        let mut reading = reading(ReadOptions { start: Start::Offset(5), until_offset: Some(9), ..Default::default() });
        assert_eq!(offsets(reading.take(frame(3..7)).unwrap()), [5, 6]);
        assert_eq!(offsets(reading.take(frame(3..7)).unwrap()), []);
        assert_eq!(reading.take(frame(8..9)).unwrap_err().reason(), &Reason::Corrupt);
        assert_eq!(offsets(reading.take(frame(7..12)).unwrap()), [7, 8]);
        let other = wire::ReadResponse { log_id: 4, ..frame(12..13) };
        let error = reading.take(other).unwrap_err();
        assert_eq!((error.reason(), error.log_id()), (&Reason::LogReplaced, Some(4)));
    }

    #[tokio::test]
    async fn frames_that_cannot_be_are_refused() {
        let wrong = [
            wire::ReadResponse { first_offset: i64::MAX, ..frame(0..2) },
            wire::ReadResponse { first_offset: -1, ..frame(0..2) },
            wire::ReadResponse { record_count: i32::MAX, ..frame(0..2) },
            wire::ReadResponse { next_offset: Some(i64::MIN), ..frame(0..2) },
            wire::ReadResponse { first_offset: 1, ..frame(0..2) },
        ];
        for frame in wrong {
            assert_eq!(reading(ReadOptions::default()).take(frame).unwrap_err().reason(), &Reason::Corrupt);
        }
    }

    #[tokio::test]
    async fn a_filter_moves_a_read_without_records() {
        let mut reading = reading(ReadOptions { filter: Some(Default::default()), ..Default::default() });
        let failed = vec![wire::FailedRecord { offset: 7, message: "no".into() }];
        let selected = wire::ReadResponse { next_offset: Some(40), failed, ..frame(0..0) };
        assert_eq!(offsets(reading.take(selected).unwrap()), []);
        assert_eq!(reading.progress.offset(), Some(40));
        assert_eq!(reading.progress.get(|reached| reached.failed.len()), 1);
        let many = (0..20_000).map(|offset| FailedRecord { offset, message: String::new() }).collect();
        reading.report(many);
        assert_eq!(reading.progress.get(|reached| reached.failed.len()), 10_000, "nobody has taken them");
        assert_eq!(reading.progress.get(|reached| reached.failed[9_999].offset), 19_999);
        assert_eq!(reading.progress.failed(), 20_001);
        assert_eq!(reading.take(frame(40..41)).unwrap_err().reason(), &Reason::Unsupported);
    }
}
