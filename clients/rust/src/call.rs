use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::errors::{Error, Outcome};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Start<'a, T> = Box<dyn FnOnce(Deadline) -> BoxFuture<'a, Result<T, Error>> + Send + 'a>;

/// A call: a future that does nothing before it is awaited. A call that is dropped is given up,
/// and may have had its effect; [`Call::within`] bounds it and says what is known of that.
#[must_use = "a call does nothing before it is awaited"]
pub struct Call<'a, T> {
    deadline: Deadline,
    state: State<'a, T>,
}

enum State<'a, T> {
    Prepared(Option<Start<'a, T>>),
    Running(BoxFuture<'a, Result<T, Error>>),
}

impl<'a, T> Call<'a, T> {
    pub(crate) fn new<F>(start: impl FnOnce(Deadline) -> F + Send + 'a) -> Call<'a, T>
    where
        F: Future<Output = Result<T, Error>> + Send + 'a,
    {
        let start: Start<'a, T> = Box::new(move |deadline| Box::pin(start(deadline)));
        Call { deadline: Deadline(None), state: State::Prepared(Some(start)) }
    }

    /// Ends the call when so much time has passed, from now on. The error is
    /// [`Reason::Cancelled`](crate::Reason::Cancelled), and its outcome is what is known of the
    /// effect by then.
    pub fn within(mut self, time: Duration) -> Self {
        self.deadline = Deadline(Instant::now().checked_add(time));
        self
    }

    pub(crate) fn by(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self
    }
}

impl<T> Future for Call<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let deadline = self.deadline;
        if let State::Prepared(start) = &mut self.state {
            let start = start.take().expect("it is running once it has been taken");
            self.state = State::Running(start(deadline));
        }
        match &mut self.state {
            State::Running(running) => running.as_mut().poll(cx),
            State::Prepared(_) => unreachable!("it was begun above"),
        }
    }
}

impl<T> fmt::Debug for Call<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// When a call ends; none: whenever it does.
#[derive(Clone, Copy, Default)]
pub(crate) struct Deadline(pub Option<Instant>);

impl Deadline {
    /// Waits until the deadline. The outcome is what is known of the effect then.
    pub async fn bound<T>(self, outcome: Outcome, doing: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match self.0 {
            None => doing.await,
            Some(at) => timeout_at(at, doing).await.unwrap_or_else(|_| Err(Error::cancelled(outcome))),
        }
    }
}
