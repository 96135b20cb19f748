use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::Stream;
use prost::Message;
use tonic::Streaming;

use crate::call::{BoxFuture, Call, Deadline};
use crate::calls::{self, Calls, Method};
use crate::errors::{Error, Outcome};
use crate::logs::LogInfo;
use crate::pauses::Pauses;
use crate::route::{Route, ToLeader};
use crate::silence::{Waiting, attend};
use crate::token::Shown;
use crate::wire;
use crate::writers::WriterState;

/// The description of a log now and after changes, as a stream. A broken connection, or a node that
/// stands still, ends it with an error. Made by [`Admin::watch_info`](crate::Admin::watch_info); dropping it ends the watch.
pub struct InfoStream(States<wire::WatchInfoRequest, wire::WatchInfoResponse, LogInfo>);

/// Which program has the writer lease of a log, as a stream: now, after each change, and every
/// interval. It continues when another node leads the log. Each state is one that the log has had; a
/// program may have had the lease between two of them. Made by
/// [`Admin::watch_writer`](crate::Admin::watch_writer); dropping it ends the watch.
pub struct WriterStream(States<wire::WatchWriterRequest, wire::WatchWriterResponse, WriterState>);

impl InfoStream {
    pub(crate) fn new(calls: Arc<Calls>, log: &str, interval: Option<Duration>) -> InfoStream {
        let request =
            wire::WatchInfoRequest { log: log.to_string(), min_interval: interval.map(wire::span), log_id: 0 };
        let read = |answer: wire::WatchInfoResponse| answer.info.unwrap_or_default().into();
        InfoStream(States::new(calls, log, &calls::WATCH_INFO, request, read, false))
    }

    /// The next description; none at the end.
    pub fn try_next(&mut self) -> Call<'_, Option<LogInfo>> {
        self.0.try_next()
    }
}

impl WriterStream {
    pub(crate) fn new(calls: Arc<Calls>, log: &str, interval: Option<Duration>) -> WriterStream {
        let request = wire::WatchWriterRequest { log: log.to_string(), log_id: 0, interval: interval.map(wire::span) };
        let read = |answer: wire::WatchWriterResponse| answer.state.unwrap_or_default().into();
        WriterStream(States::new(calls, log, &calls::WATCH_WRITER, request, read, true))
    }

    /// The next state; none at the end.
    pub fn try_next(&mut self) -> Call<'_, Option<WriterState>> {
        self.0.try_next()
    }
}

impl Stream for InfoStream {
    type Item = Result<LogInfo, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(cx)
    }
}

impl Stream for WriterStream {
    type Item = Result<WriterState, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(cx)
    }
}

impl fmt::Debug for InfoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InfoStream").finish_non_exhaustive()
    }
}

impl fmt::Debug for WriterStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterStream").finish_non_exhaustive()
    }
}

/// What a node shows of a log as it changes.
struct States<Q: 'static, A: 'static, T> {
    watch: Arc<Watch<Q, A, T>>,
    waiting: Option<Coming<A, T>>, // none: it has ended
}

/// The next state, or none at the end.
type Coming<A, T> = BoxFuture<'static, Result<Option<Next<A, T>>, Error>>;

/// A state, and where the next one comes from.
type Next<A, T> = (T, Source<A>);

/// A stream of states from the node at an address.
struct Source<A> {
    address: String,
    stream: Streaming<A>,
    opened: Instant,
    pauses: Pauses,
}

/// How long a stream lasts that is opened again after a pause: a node that ends each after its first
/// state would be called as fast as it answers.
const BRIEF: Duration = Duration::from_secs(1);

/// What is watched.
struct Watch<Q: 'static, A: 'static, T> {
    calls: Arc<Calls>,
    log: String,
    method: &'static Method<Q, A>,
    request: Q,
    read: fn(A) -> T,
    /// The stream is opened again when it breaks, or its node is silent or leads the log no longer.
    lasting: bool,
    shown: Shown,
}

impl<Q, A, T> States<Q, A, T>
where
    Q: Message + Clone + 'static,
    A: Message + Default + 'static,
    T: Send + 'static,
{
    fn new(
        calls: Arc<Calls>,
        log: &str,
        method: &'static Method<Q, A>,
        request: Q,
        read: fn(A) -> T,
        lasting: bool,
    ) -> States<Q, A, T> {
        let shown = calls.shown();
        let watch = Arc::new(Watch { calls, log: log.to_string(), method, request, read, lasting, shown });
        States { waiting: Some(Box::pin(begin(watch.clone(), Pauses::new()))), watch }
    }

    fn try_next(&mut self) -> Call<'_, Option<T>> {
        Call::new(move |deadline| async move {
            let next = async { poll_fn(|cx| self.poll_next(cx)).await.transpose() };
            deadline.bound(Outcome::NotDone, next).await
        })
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        let Some(waiting) = &mut self.waiting else {
            return Poll::Ready(None);
        };
        let next = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(next.transpose().map(|next| {
            let (state, source) = next?;
            self.waiting = Some(Box::pin(following(self.watch.clone(), source)));
            Ok(state)
        }))
    }
}

/// Finds a node that answers, of which the first answer is a part.
async fn begin<Q, A, T>(watch: Arc<Watch<Q, A, T>>, pauses: Pauses) -> Result<Option<Next<A, T>>, Error>
where
    Q: Message + Clone + 'static,
    A: Message + Default + 'static,
{
    let Watch { calls, log, method, request, shown, .. } = &*watch;
    let mut route = Route::Leader(ToLeader::new(log, false));
    let opened = Instant::now();
    let (first, stream) = calls
        .tries(&mut route, Deadline::default(), Waiting::Answer, |channel| {
            Box::pin(async move {
                let opened = async {
                    let mut stream = calls.stream(channel, method, request.clone(), shown.header()?).await?;
                    let first = calls.answer(stream.message()).await?;
                    Ok::<_, Error>((first, stream))
                };
                opened.await.map_err(|e| shown.failure(e))
            })
        })
        .await?;
    let (address, _) = route.asked(calls);
    let source = Source { address: address.to_string(), stream, opened, pauses };
    Ok(first.map(|first| ((watch.read)(first), source)))
}

async fn following<Q, A, T>(watch: Arc<Watch<Q, A, T>>, mut source: Source<A>) -> Result<Option<Next<A, T>>, Error>
where
    Q: Message + Clone + 'static,
    A: Message + Default + 'static,
{
    let Watch { calls, log, shown, lasting, .. } = &*watch;
    shown.progressed();
    let next = calls.answer(source.stream.message());
    let (leads, waiting) = if *lasting { (log.as_str(), Waiting::State) } else { ("", Waiting::Frame) };
    match attend(calls, (&source.address, leads), waiting, next).await.map_err(|e| shown.failure(e)) {
        Ok(Some(answer)) => return Ok(Some(((watch.read)(answer), source))),
        Ok(None) if !lasting => return Ok(None),
        Ok(None) => {}
        Err(failure) if failure.renewed() || *lasting && failure.again() => {
            if failure.elsewhere() {
                calls.peers.look_elsewhere(log, &source.address, failure.leader());
            }
        }
        Err(failure) => return Err(failure),
    }
    if source.opened.elapsed() < BRIEF {
        source.pauses.wait().await;
    } else {
        source.pauses = Pauses::new();
    }
    begin(watch.clone(), source.pauses).await
}
