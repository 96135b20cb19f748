use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec;

use futures_core::Stream;
use tokio::time::{Sleep, sleep};

use crate::call::{BoxFuture, Call};
use crate::calls::Calls;
use crate::errors::{Error, Outcome};
use crate::read_options::{FailedRecord, ReadOptions};
use crate::reading::Reading;
use crate::records::Record;

/// Reads one log, as a stream of records. When the connection breaks, or the node can no longer
/// serve it, it continues at the next offset on another, without gap or repeat. After an error it
/// returns that error again. Made by [`Client::read`](crate::Client::read).
///
/// Waiting for a record may be given up at any time: the reader continues where it was. Dropping
/// the reader ends the read.
pub struct Reader {
    log: String,
    records: vec::IntoIter<Record>, // of the newest frame
    reading: Option<Box<Reading>>,  // none: busy has it
    busy: Option<Filling>,
    progress: Progress,
}

type Filling = BoxFuture<'static, (Box<Reading>, Result<Vec<Record>, Error>)>;

/// How far a reader has come. It can be kept, and asked while the reader waits.
#[derive(Clone, Default)]
pub struct Progress(pub(crate) Arc<Mutex<Reached>>);

#[derive(Default)]
pub(crate) struct Reached {
    pub next: Option<i64>, // of the next frame
    pub end: i64,
    pub age: Option<Duration>,
    pub log_id: u64,
    pub failed: Vec<FailedRecord>,
    pub failures: u64,
}

impl Progress {
    pub(crate) fn get<T>(&self, read: impl FnOnce(&mut Reached) -> T) -> T {
        read(&mut self.0.lock().expect("not poisoned"))
    }

    /// The offset below which everything has been looked at and is given, or about to be; none
    /// before the first frame. With a filter it moves while records are scanned, too.
    pub fn offset(&self) -> Option<i64> {
        self.get(|reached| reached.next)
    }

    /// The committed end of the log as far as servers have said: it never goes back.
    pub fn end(&self) -> i64 {
        self.get(|reached| reached.end)
    }

    /// On how many records the expression of the filter has failed, with `skip_failed`.
    pub fn failed(&self) -> u64 {
        self.get(|reached| reached.failures)
    }

    /// How old the knowledge of the end was when the newest frame was made; from a leader, how
    /// long ago a majority followed it. None before the first frame, and while the node read from
    /// has not heard from a leader.
    pub fn age(&self) -> Option<Duration> {
        self.get(|reached| reached.age)
    }
}

/// How many failed records are kept for who takes them.
const MAX_FAILED: usize = 10_000;

impl Reached {
    /// Keeps the newest, and counts all.
    pub fn note_failed(&mut self, failed: Vec<FailedRecord>) {
        self.failures += failed.len() as u64;
        self.failed.extend(failed);
        let many = self.failed.len().saturating_sub(MAX_FAILED);
        self.failed.drain(..many);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("offset", &self.offset()).field("end", &self.end()).finish()
    }
}

impl Reader {
    pub(crate) fn new(calls: Arc<Calls>, log: &str, options: ReadOptions) -> Result<Reader, Error> {
        options.check()?;
        let progress = Progress::default();
        let reading = Some(Box::new(Reading::new(calls, log, options, progress.clone())));
        Ok(Reader { log: log.to_string(), records: Vec::new().into_iter(), reading, busy: None, progress })
    }

    /// Name of the log.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The id of the log that is read; 0 before the first frame. An offset has a meaning only in
    /// the log with its id: a program that keeps one keeps the other, too.
    pub fn log_id(&self) -> u64 {
        self.progress.get(|reached| reached.log_id)
    }

    /// The offset of the next record; none before the first has been found. With a filter it
    /// moves while records are scanned, too.
    pub fn offset(&self) -> Option<i64> {
        self.records.as_slice().first().map(|record| record.offset).or_else(|| self.progress.offset())
    }

    /// The committed end of the log as far as servers have said: it never goes back.
    pub fn end(&self) -> i64 {
        self.progress.end()
    }

    /// How old the knowledge of the end is: see [`Progress::age`].
    pub fn age(&self) -> Option<Duration> {
        self.progress.age()
    }

    /// How far the reader has come, for others to ask.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The records that the expression of the filter failed on since the last call, with
    /// `skip_failed`: the newest 10,000 of them, see [`Progress::failed`]. After the reader had to connect anew one may come again.
    pub fn take_failed(&mut self) -> Vec<FailedRecord> {
        self.progress.get(|reached| std::mem::take(&mut reached.failed))
    }

    /// Finds the tail, where the read begins there; otherwise it asks nobody. Asking first gives
    /// the tail a fixed place, which a broken connection cannot move. Reading does it, too.
    pub fn open(&mut self) -> Call<'_, ()> {
        Call::new(move |deadline| async move {
            match &mut self.reading {
                Some(reading) => reading.open(deadline).await,
                None => Ok(()), // a read has begun
            }
        })
    }

    /// The next record; none at the end of what was asked for. A read that follows waits there.
    pub fn try_next(&mut self) -> Next<'_> {
        Next { reader: self, late: None }
    }

    /// What is left of a frame: faster than records one by one, and otherwise the same. It is
    /// empty at the end.
    pub fn next_batch(&mut self) -> Call<'_, Vec<Record>> {
        Call::new(move |deadline| async move {
            let filled = poll_fn(|cx| self.poll_fill(cx));
            deadline.bound(Outcome::NotDone, filled).await?;
            Ok(std::mem::replace(&mut self.records, Vec::new().into_iter()).collect())
        })
    }

    /// Gets records, if there are none. Without any after that there are no more.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.records.as_slice().is_empty() {
            return Poll::Ready(Ok(()));
        }
        if let Some(mut reading) = self.reading.take() {
            self.busy = Some(Box::pin(async move {
                let filled = reading.fill().await;
                (reading, filled)
            }));
        }
        let Some(busy) = &mut self.busy else {
            return Poll::Ready(Err(Error::closed("reader", Outcome::NotDone)));
        };
        let (reading, filled) = ready!(busy.as_mut().poll(cx));
        (self.reading, self.busy) = (Some(reading), None);
        Poll::Ready(filled.map(|records| self.records = records.into_iter()))
    }
}

impl Stream for Reader {
    type Item = Result<Record, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(match ready!(self.poll_fill(cx)) {
            Ok(()) => self.records.next().map(Ok),
            Err(error) => Some(Err(error)),
        })
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("log", &self.log).field("offset", &self.offset()).finish_non_exhaustive()
    }
}

/// The next record of a reader: a future that may be dropped, and nothing is lost.
#[derive(Debug)]
#[must_use = "a future does nothing before it is awaited"]
pub struct Next<'a> {
    reader: &'a mut Reader,
    late: Option<Pin<Box<Sleep>>>,
}

impl Next<'_> {
    /// Waits no longer than this, from now on. The error is
    /// [`Reason::Cancelled`](crate::Reason::Cancelled), after which the reader may be asked again.
    pub fn within(mut self, time: Duration) -> Self {
        self.late = Some(Box::pin(sleep(time)));
        self
    }
}

impl Future for Next<'_> {
    type Output = Result<Option<Record>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(next) = Pin::new(&mut *self.reader).poll_next(cx) {
            return Poll::Ready(next.transpose());
        }
        match &mut self.late {
            Some(late) => late.as_mut().poll(cx).map(|()| Err(Error::cancelled(Outcome::NotDone))),
            None => Poll::Pending,
        }
    }
}
