use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep_until};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::backlog::{Interruption, Sendable};
use crate::call::BoxFuture;
use crate::calls::Calls;
use crate::codec::Outgoing;
use crate::errors::{Error, Outcome};
use crate::pauses::Pauses;
use crate::producer_session::ProducerSession;
use crate::reason::Reason;
use crate::request::State;
use crate::route::{Route, ToLeader};
use crate::shared::Shared;
use crate::token::{Header, Shown};
use crate::watch;
use crate::wire;
use crate::wire::append_response::Result as Answer;

/// Sends what a backlog holds: the task of a producer. A round begins with a stream and ends with
/// an interruption, which says why; between two of them `repair` decides what becomes of what has
/// no answer.
pub(crate) struct Rounds {
    pub calls: Arc<Calls>,
    pub log: String,
    pub shared: Arc<Shared>,
    pub session: ProducerSession,
    pub route: Route,
    appended: u64,        // requests
    troubled: AtomicBool, // the application has heard of it
    shown: Shown,
}

impl Rounds {
    pub fn new(calls: Arc<Calls>, log: &str, shared: Arc<Shared>, session: ProducerSession) -> Rounds {
        let route = Route::Leader(ToLeader::new(log, false));
        let shown = calls.shown();
        Rounds {
            shown,
            calls,
            log: log.to_string(),
            shared,
            session,
            route,
            appended: 0,
            troubled: AtomicBool::new(false),
        }
    }

    /// Sends until the producer ends.
    pub async fn run(mut self) {
        let mut beside = JoinSet::new();
        beside.spawn(watch::watch(self.calls.clone(), self.log.clone(), self.shared.clone()));
        if self.shared.options.in_session() {
            beside.spawn(watch::keep(self.session.clone(), self.shared.clone()));
        }
        let (mut pauses, mut width): (Option<Pauses>, usize) = (None, 1);
        while !self.shared.ended() {
            if self.shared.backlog().newest().is_none() && !self.shared.is_interrupted() {
                pauses = None;
                tokio::select! {
                    () = self.shared.woken() => (),
                    () = self.shared.interrupted() => (),
                }
                continue;
            }
            let (before, shared) = (self.appended, self.shared.clone());
            let ended = tokio::select! {
                biased;
                () = shared.interrupted() => None,
                ended = self.round(&mut pauses, width) => Some(ended),
            };
            let first = self.shared.end_round();
            let Some(interruption) = first.or(ended) else { continue };
            pauses = if self.appended != before { None } else { pauses.or_else(|| Some(Pauses::new())) };
            width = if interruption.error.elsewhere() { self.route.width(&self.calls, &interruption.error) } else { 1 };
            let error = &interruption.error;
            if error.again() && *error.reason() != Reason::TimedOut && !self.shared.ended() {
                self.troubled.store(true, Ordering::Relaxed);
                self.calls.trouble(&self.log, Some(error));
            }
            self.repair(interruption).await;
            self.shared.forget_timeout();
        }
        beside.shutdown().await;
        self.shared.backlog().fail(&Error::closed("producer", Outcome::NotDone).into());
    }

    /// Runs a round until something ends it.
    async fn round(&mut self, pauses: &mut Option<Pauses>, width: usize) -> Interruption {
        match self.open(pauses, width).await {
            Ok(stream) => self.exchange(stream).await,
            Err(error) => self.calls.failure(error).into(),
        }
    }

    async fn open(&mut self, pauses: &mut Option<Pauses>, width: usize) -> Result<AppendStream, Error> {
        if let Some(pauses) = pauses {
            pauses.between(width).await;
        }
        let channel = self.route.connect(&self.calls).await?;
        self.shared.backlog().node = self.route.asked(&self.calls).0.to_string();
        self.session.reopen().await?;
        self.shared.backlog().counts.streams += 1;
        Ok(AppendStream::new(&self.calls, channel, self.shown.header()?))
    }

    /// Sends what can be sent and takes the answers, which come in the order of the requests.
    async fn exchange(&mut self, mut stream: AppendStream) -> Interruption {
        let calls = self.calls.clone();
        let mut closed = pin!(calls.peers.until_closed());
        let mut last: Option<Interruption> = None; // waits for the answers to what was sent
        loop {
            let due = self.send(&mut stream);
            tokio::select! {
                answer = stream.next() => match answer {
                    Ok(Some(answer)) => {
                        if let Some(interruption) = self.take(answer, last.is_some()) {
                            if !self.shared.backlog().window.held {
                                return interruption;
                            }
                            last.get_or_insert(interruption);
                        }
                        if self.shared.backlog().window.sent == 0
                            && let Some(interruption) = last.take()
                        {
                            return interruption;
                        }
                    }
                    Ok(None) => {
                        return last.unwrap_or_else(|| {
                            Error::unreachable(Outcome::MaybeDone, "the server ended the stream").into()
                        });
                    }
                    Err(status) => {
                        return last.unwrap_or_else(|| {
                            let failure = self.calls.failure(Error::from_status(&status));
                            self.shown.failure(failure).into()
                        });
                    }
                },
                // Records of all who run now meet in one request.
                () = self.shared.woken() => yield_now().await,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => (),
                () = &mut closed => return Error::closed("client", Outcome::MaybeDone).into(),
            }
        }
    }

    /// Puts requests on the stream, in order. Returns when a request that lingers is due.
    fn send(&self, stream: &mut AppendStream) -> Option<Instant> {
        let mut backlog = self.shared.backlog();
        loop {
            match backlog.send_next() {
                Sendable::Now(request) => stream.send(*request, &self.log),
                Sendable::At(due) => return Some(due),
                Sendable::Nothing => return None,
            }
        }
    }

    /// Tells the application that records are appended again.
    pub(crate) fn continues(&self) {
        if self.troubled.swap(false, Ordering::Relaxed) {
            self.calls.trouble(&self.log, None);
        }
    }

    /// Takes an answer. What takes more than settling requests ends the round. alike: it is to what
    /// was sent with a token that was refused, and there is another.
    fn take(&mut self, answer: wire::AppendResponse, alike: bool) -> Option<Interruption> {
        let answer = match answer.result {
            Some(Answer::Appended(appended)) => Ok(appended),
            Some(Answer::Refused(refusal)) => Err(Error::from_refusal(refusal)),
            None => Err(Error::from_refusal(wire::Refusal::default())),
        };
        let waits = self.shared.backlog().window.oldest().is_some_and(|r| r.state != State::Failed);
        let answer = answer.map_err(|refused| match (waits, alike, refused.reason()) {
            (true, true, Reason::Unauthenticated) => refused.with_retry(),
            // Not under the lock: the application may be asked for another token.
            (true, false, _) => self.shown.failure(refused),
            _ => refused, // of what has failed already, it says nothing
        });
        let mut backlog = self.shared.backlog();
        let Some(request) = backlog.window.oldest() else {
            return Some(Error::unreachable(Outcome::MaybeDone, "an answer without a request").into());
        };
        let (id, state) = (request.id, request.state);
        if state == State::Failed {
            backlog.leave();
            return None;
        }
        let error = match answer {
            Ok(appended) => {
                self.shown.progressed();
                self.appended += u64::from(backlog.settle(&appended));
                drop(backlog);
                self.continues();
                return None;
            }
            Err(error) => error,
        };
        let interruption = Interruption { error: error.clone(), refused: Some(id) };
        if !self.shared.options.in_session() {
            // Those behind it have answers of their own: without a session nothing else says what
            // became of them.
            backlog.window.held |= error.renewed();
            backlog.settle_error(&error);
            return (error.elsewhere() || error.renewed()).then_some(interruption);
        }
        if error.outcome() == Outcome::Done {
            // It is in the log, so nothing slips ahead of it: those behind go on.
            backlog.settle_error(&error);
            return None;
        }
        let settled = error.outcome() == Outcome::NotDone && !backlog.window.doubtful();
        if error.again() || error.ends_session() || !settled {
            return Some(interruption);
        }
        backlog.fail(&interruption);
        backlog.leave();
        None
    }
}

/// A stream of appends. Its first answer says that it is open, so it is opened and used at once.
struct AppendStream {
    requests: mpsc::UnboundedSender<Outgoing>, // the window bounds it
    named: bool,                               // it knows its log
    answers: Answers,
}

enum Answers {
    Opening(BoxFuture<'static, Result<Streaming<wire::AppendResponse>, Status>>),
    Open(Box<Streaming<wire::AppendResponse>>),
}

impl AppendStream {
    fn new(calls: &Calls, channel: Channel, token: Option<Header>) -> AppendStream {
        let (requests, received) = mpsc::unbounded_channel();
        let opening = Box::pin(calls.append(channel, Received(received), token));
        AppendStream { requests, named: false, answers: Answers::Opening(opening) }
    }

    fn send(&mut self, mut request: Outgoing, log: &str) {
        if !self.named {
            request.head.log = log.to_string();
            self.named = true;
        }
        let _ = self.requests.send(request); // the answers say why it cannot be sent
    }

    /// The next answer. Nothing is lost when the future is dropped.
    async fn next(&mut self) -> Result<Option<wire::AppendResponse>, Status> {
        if let Answers::Opening(opening) = &mut self.answers {
            self.answers = Answers::Open(Box::new(opening.as_mut().await?));
        }
        match &mut self.answers {
            Answers::Open(answers) => answers.message().await,
            Answers::Opening(_) => unreachable!("it was opened above"),
        }
    }
}

/// A channel as a stream.
struct Received(mpsc::UnboundedReceiver<Outgoing>);

impl Stream for Received {
    type Item = Outgoing;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        self.0.poll_recv(cx)
    }
}
