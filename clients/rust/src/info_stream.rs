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
use crate::wire;

/// The description of a log now and after changes, as a stream. A broken connection ends it with
/// an error. Made by [`Admin::watch_info`](crate::Admin::watch_info); dropping it ends the watch.
pub struct InfoStream {
    calls: Arc<Calls>,
    waiting: Option<BoxFuture<'static, Result<Option<Next>, Error>>>, // none: it has ended
}

/// A description, and where the next one comes from.
type Next = (LogInfo, Streaming<wire::WatchInfoResponse>);

impl InfoStream {
    pub(crate) fn new(calls: Arc<Calls>, log: &str, interval: Option<Duration>) -> InfoStream {
        let request =
            wire::WatchInfoRequest { log: log.to_string(), min_interval: interval.map(wire::span), log_id: 0 };
        InfoStream { waiting: Some(Box::pin(begin(calls.clone(), request))), calls }
    }

    /// The next description; none at the end.
    pub fn try_next(&mut self) -> Call<'_, Option<LogInfo>> {
        Call::new(move |deadline| async move {
            let next = async { poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await.transpose() };
            deadline.bound(Outcome::NotDone, next).await
        })
    }
}

async fn begin(calls: Arc<Calls>, request: wire::WatchInfoRequest) -> Result<Option<Next>, Error> {
    let mut route = Route::Leader(ToLeader::new(&request.log, false));
    let stream = calls
        .tries(&mut route, Deadline::default(), |channel| {
            Box::pin(calls.stream(channel, &calls::WATCH_INFO, request.clone()))
        })
        .await?;
    following(calls, stream).await
}

async fn following(calls: Arc<Calls>, mut stream: Streaming<wire::WatchInfoResponse>) -> Result<Option<Next>, Error> {
    let answer = calls.answer(stream.message()).await?;
    Ok(answer.map(|answer| (answer.info.unwrap_or_default().into(), stream)))
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
            self.waiting = Some(Box::pin(following(self.calls.clone(), stream)));
            Ok(info)
        }))
    }
}

impl fmt::Debug for InfoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InfoStream").finish_non_exhaustive()
    }
}
