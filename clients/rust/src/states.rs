use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tonic::Streaming;

use crate::call::{BoxFuture, Call, Deadline};
use crate::calls::{self, Calls};
use crate::errors::{Error, Outcome};
use crate::logs::LogInfo;
use crate::route::{Route, ToLeader};
use crate::silence::{Waiting, attend};
use crate::token::Shown;
use crate::wire;

/// The description of a log now and after changes, as a stream. A broken connection, or a node that
/// stands still, ends it with an error. Made by [`Admin::watch_info`](crate::Admin::watch_info); dropping it ends the watch.
pub struct InfoStream {
    watch: Arc<Watch>,
    waiting: Option<BoxFuture<'static, Result<Option<Next>, Error>>>, // none: it has ended
}

/// A description, and where the next one comes from.
type Next = (LogInfo, Source);

/// A stream of descriptions from the node at an address.
struct Source {
    address: String,
    stream: Streaming<wire::WatchInfoResponse>,
}

impl InfoStream {
    pub(crate) fn new(calls: Arc<Calls>, log: &str, interval: Option<Duration>) -> InfoStream {
        let request =
            wire::WatchInfoRequest { log: log.to_string(), min_interval: interval.map(wire::span), log_id: 0 };
        let watch = Arc::new(Watch { shown: calls.shown(), calls, request });
        InfoStream { waiting: Some(Box::pin(begin(watch.clone()))), watch }
    }

    /// The next description; none at the end.
    pub fn try_next(&mut self) -> Call<'_, Option<LogInfo>> {
        Call::new(move |deadline| async move {
            let next = async { poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await.transpose() };
            deadline.bound(Outcome::NotDone, next).await
        })
    }
}

/// What is watched.
struct Watch {
    calls: Arc<Calls>,
    request: wire::WatchInfoRequest,
    shown: Shown,
}

async fn begin(watch: Arc<Watch>) -> Result<Option<Next>, Error> {
    let (first, source) = open(&watch).await?;
    Ok(first.map(|first| (first, source)))
}

/// Finds a node that answers, of which the first answer is a part.
async fn open(watch: &Watch) -> Result<(Option<LogInfo>, Source), Error> {
    let Watch { calls, request, shown } = watch;
    let mut route = Route::Leader(ToLeader::new(&request.log, false));
    let (first, stream) = calls
        .tries(&mut route, Deadline::default(), Waiting::Answer, |channel| {
            Box::pin(async move {
                let opened = async {
                    let mut stream =
                        calls.stream(channel, &calls::WATCH_INFO, request.clone(), shown.header()?).await?;
                    let first = calls.answer(stream.message()).await?;
                    Ok::<_, Error>((first, stream))
                };
                opened.await.map_err(|e| shown.failure(e))
            })
        })
        .await?;
    let (address, _) = route.asked(calls);
    Ok((first.map(described), Source { address: address.to_string(), stream }))
}

fn described(answer: wire::WatchInfoResponse) -> LogInfo {
    answer.info.unwrap_or_default().into()
}

async fn following(watch: Arc<Watch>, mut source: Source) -> Result<Option<Next>, Error> {
    let Watch { calls, shown, .. } = &*watch;
    shown.progressed();
    let next = calls.answer(source.stream.message());
    match attend(calls, (&source.address, ""), Waiting::Frame, next).await.map_err(|e| shown.failure(e)) {
        Ok(answer) => Ok(answer.map(|answer| (described(answer), source))),
        Err(failure) if failure.renewed() => begin(watch.clone()).await,
        Err(failure) => Err(failure),
    }
}

impl Stream for InfoStream {
    type Item = Result<LogInfo, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(waiting) = &mut self.waiting else {
            return Poll::Ready(None);
        };
        let next = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(next.transpose().map(|next| {
            let (info, stream) = next?;
            self.waiting = Some(Box::pin(following(self.watch.clone(), stream)));
            Ok(info)
        }))
    }
}

impl fmt::Debug for InfoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InfoStream").finish_non_exhaustive()
    }
}
