use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::backlog::Placed;
use crate::call::Deadline;
use crate::errors::{Error, Outcome, Position};
use crate::request::Answer;
use crate::shared::Shared;

/// A record that a producer has accepted: a future of its offset, which is ready when the record
/// is durable. The record is on its way whether the future is awaited or dropped.
pub struct Pending {
    shared: Arc<Shared>,
    at: Placed,
    answer: oneshot::Receiver<Answer>,
}

impl Pending {
    pub(crate) fn new(shared: Arc<Shared>, at: Placed, answer: oneshot::Receiver<Answer>) -> Pending {
        Pending { shared, at, answer }
    }

    /// Where the record stands in its session, while it has no answer: with it
    /// [`Admin::resolve`](crate::Admin::resolve) returns the outcome later. None without a
    /// session.
    pub fn position(&self) -> Option<Position> {
        self.shared.backlog().place(self.at)
    }

    /// Waits until the deadline. The error says where the record is by then.
    pub(crate) async fn by(mut self, deadline: Deadline) -> Answer {
        match deadline.bound(Outcome::MaybeDone, &mut self).await {
            Err(late) if late.position().is_none() => Err(late.at(self.position())),
            answer => answer,
        }
    }
}

impl Future for Pending {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        Pin::new(&mut self.answer).poll(cx).map(|answer| {
            // Its task was dropped with its runtime.
            answer.unwrap_or_else(|_| Err(Error::closed("producer", Outcome::MaybeDone)))
        })
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("position", &self.position()).finish_non_exhaustive()
    }
}
