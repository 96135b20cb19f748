//! One connection to a node: it is made once, and known to be up or gone.
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;

use crate::errors::{Error, Outcome};

/// A channel on one connection. Unlike tonic's own it does not connect again, so that a call on
/// it fails with the connection, and whoever connects learns why that is not possible.
pub(crate) struct Connection {
    channel: Channel,
    heard: watch::Receiver<bool>,
}

impl Connection {
    /// Connects, and waits until the server has said something. With an error nothing has been
    /// sent.
    pub async fn open(address: &str, endpoint: &Endpoint) -> Result<Connection, Error> {
        let failed = |why: &dyn std::fmt::Display| Error::unreachable(Outcome::NotDone, format!("{address}: {why}"));
        let stream = TcpStream::connect(address).await.map_err(|e| failed(&e))?;
        stream.set_nodelay(true).map_err(|e| failed(&e))?;
        let (hear, mut heard) = watch::channel(false);
        let connector = Once(Some(TokioIo::new(Watched { stream, hear })));
        let channel = endpoint.connect_with_connector(connector).await.map_err(|e| {
            let message = format!("{address}: {}", causes(&e));
            Error::unconnected(Outcome::NotDone, message, &e)
        })?;
        let said = heard.wait_for(|said| *said).await.is_ok();
        if !said {
            let why = "it takes the connection and closes it: no gRPC server, one that wants TLS, or one that has as many connections as it takes";
            return Err(failed(&why));
        }
        Ok(Connection { channel, heard })
    }

    /// The channel, while the connection is up.
    pub fn channel(&self) -> Option<Channel> {
        self.heard.has_changed().is_ok().then(|| self.channel.clone())
    }
}

/// What an error says, and what each of its causes does.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut all = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        all = format!("{all}: {cause}");
        next = cause.source();
    }
    all
}

/// Hands out its stream one time.
struct Once(Option<TokioIo<Watched>>);

impl Service<Uri> for Once {
    type Response = TokioIo<Watched>;
    type Error = NoConnection;
    type Future = Ready<Result<Self::Response, NoConnection>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NoConnection>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready(self.0.take().ok_or(NoConnection))
    }
}

/// The error of a call for which there was no connection any more: nothing was sent.
#[derive(Debug)]
pub(crate) struct NoConnection;

impl NoConnection {
    /// Reports whether it is the cause of an error.
    pub fn caused(error: &(dyn std::error::Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(cause) = next {
            if cause.is::<NoConnection>() {
                return true;
            }
            next = cause.source();
        }
        false
    }
}

impl std::fmt::Display for NoConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is gone")
    }
}

impl std::error::Error for NoConnection {}

/// Notes when the server has said something. It is dropped with the connection.
struct Watched {
    stream: TcpStream,
    hear: watch::Sender<bool>,
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before && !*self.hear.borrow() {
            self.hear.send_replace(true);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
