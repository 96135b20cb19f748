//! One connection to a node: it is made once, and known to be up or gone.
use std::fmt::Display;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{self, Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::rustls;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;

use crate::encryption::{self, Encryption};
use crate::errors::{Error, Outcome};

/// A channel on one connection. Unlike tonic's own it does not connect again, so that a call on
/// it fails with the connection, and whoever connects learns why that is not possible.
pub(crate) struct Connection {
    channel: Channel,
    heard: watch::Receiver<Heard>,
}

/// What the server has said on a connection: none: nothing yet; an error: why TLS ended before it said
/// anything, such as that it refuses the client's certificate.
type Heard = Option<Result<(), rustls::Error>>;

impl Connection {
    /// Connects, and waits until the server has said something. With an error nothing has been
    /// sent.
    pub async fn open(address: &str, endpoint: &Endpoint, encryption: Option<Encryption>) -> Result<Connection, Error> {
        let failed = |why: &dyn Display| Error::unreachable(Outcome::NotDone, format!("{address}: {why}"));
        let refused = |why: &rustls::Error| {
            if encryption::lasts(why) { Error::lasting(format!("{address}: {why}")) } else { failed(why) }
        };
        let stream = TcpStream::connect(address).await.map_err(|e| failed(&e))?;
        stream.set_nodelay(true).map_err(|e| failed(&e))?;
        let stream: Box<dyn Stream> = match encryption {
            None => Box::new(stream),
            Some(encryption) => {
                let why = |e: io::Error| encryption::reason(&e).map_or_else(|| failed(&e), refused);
                Box::new(encryption.encrypt(stream).await.map_err(why)?)
            }
        };
        let (hear, mut heard) = watch::channel(None);
        let channel = endpoint.connect_with_connector(Once(Some(TokioIo::new(Watched { stream, hear })))).await;
        if channel.is_ok() {
            let _ = heard.wait_for(Heard::is_some).await; // or until the connection is gone
        }
        let first = heard.borrow().clone();
        match (first, channel) {
            (Some(Err(why)), _) => Err(refused(&why)),
            (_, Err(e)) => Err(failed(&causes(&e))),
            (Some(Ok(())), Ok(channel)) => Ok(Connection { channel, heard }),
            (None, Ok(_)) => Err(failed(
                &"it takes the connection and closes it: no gRPC server, one that wants TLS, or one that has as many connections as it takes",
            )),
        }
    }

    /// The channel, while the connection is up.
    pub fn channel(&self) -> Option<Channel> {
        self.heard.has_changed().is_ok().then(|| self.channel.clone())
    }
}

/// What an error says, and what each of its causes does.
fn causes(error: &dyn std::error::Error) -> String {
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

/// Notes when the server has said something, or has refused the client. It is dropped with the connection.
struct Watched {
    stream: Box<dyn Stream>, // without encryption, or above it
    hear: watch::Sender<Heard>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Watched {
    /// The result of a write. A server that refuses the client says why and closes the connection, on which
    /// a write may fail before that is read: so it is read before the failure is reported.
    fn written<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(done, Poll::Ready(Err(_))) && self.hear.borrow().is_none() {
            let mut first = [0];
            task::ready!(Pin::new(self).poll_read(cx, &mut ReadBuf::new(&mut first)))?;
        }
        done
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let heard = match &polled {
            Poll::Ready(Ok(())) if buf.filled().len() > before => Some(Ok(())),
            Poll::Ready(Err(e)) => encryption::reason(e).map(|why| Err(why.clone())),
            _ => None,
        };
        if heard.is_some() && self.hear.borrow().is_none() {
            self.hear.send_replace(heard);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Ipv4Addr;
    use std::process::Command;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::server::WebPkiClientVerifier;
    use tokio_rustls::rustls::{AlertDescription, RootCertStore, ServerConfig};

    use super::*;
    use crate::encryption::Security;
    use crate::{Client, ClientOptions, Identity, ReadOptions, Reason, Tls};

    /// A certificate for this machine, which is the authority of itself, and its key.
    fn identity(name: &str) -> Identity {
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 -keyout - -out -
            -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
        let mut making = Command::new("openssl");
        let made = making.args(words.split_whitespace()).args(["-subj", &format!("/CN={name}")]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Identity { certificate: made.stdout.clone(), key: made.stdout }
    }

    fn certificates(of: &Identity) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(&of.certificate).collect::<Result<_, _>>().unwrap()
    }

    /// The address of a node that serves no client but one. What it says first is an empty frame SETTINGS.
    async fn node(own: &Identity, client: &Identity) -> String {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(client));
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::from_pem_slice(&own.key).unwrap();
        let mut config = config.with_client_cert_verifier(verifier).with_single_cert(certificates(own), key).unwrap();
        config.alpn_protocols.push(b"h2".to_vec());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let accepting = acceptor.accept(stream);
                tokio::spawn(async move {
                    let mut stream = accepting.await?;
                    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
                    stream.flush().await?;
                    while stream.read(&mut [0; 1024]).await? > 0 {}
                    io::Result::Ok(())
                });
            }
        });
        address
    }

    fn tls(node: &Identity, shown: Option<&Identity>) -> Tls {
        Tls { authorities: Some(node.certificate.clone()), identity: shown.cloned() }
    }

    fn seen(error: &Error) -> (&Reason, Outcome, bool) {
        (error.reason(), error.outcome(), error.retryable())
    }

    const FINAL: (&Reason, Outcome, bool) = (&Reason::Unreachable, Outcome::NotDone, false);

    // In TLS 1.3 the refusal comes after the client's side of the handshake is complete.
    #[tokio::test]
    async fn a_node_that_refuses_the_certificate_of_a_client_is_never_connected_to() {
        let (own, user, other) = (identity("node"), identity("user"), identity("other"));
        let address = node(&own, &user).await;
        let endpoint = Endpoint::from_static("http://node");
        let encrypted = |shown| Security::Fixed(tls(&own, shown).config().unwrap()).of("127.0.0.1").ok();
        let right = Connection::open(&address, &endpoint, encrypted(Some(&user))).await.unwrap();
        assert!(right.channel().is_some());
        for (shown, alert) in [(None, "CertificateRequired"), (Some(&other), "UnknownCA")] {
            for _ in 0..30 {
                let refused = Connection::open(&address, &endpoint, encrypted(shown)).await.err().unwrap();
                assert_eq!(seen(&refused), FINAL, "{refused}");
                assert!(refused.message().contains(alert), "{refused}");
            }
        }
    }

    #[tokio::test]
    async fn what_a_client_does_ends_where_its_certificate_is_refused() {
        let (own, user, other) = (identity("node"), identity("user"), identity("other"));
        let address = node(&own, &user).await;
        for shown in [None, Some(&other)] {
            let tls = Some(tls(&own, shown));
            let forever = ClientOptions { tls, retry_time: Duration::MAX, ..Default::default() };
            let client = Client::with_options([address.as_str()], forever).unwrap();
            assert_eq!(seen(&client.producer("orders").await.unwrap_err()), FINAL);
            assert_eq!(seen(&client.admin().info("orders").await.unwrap_err()), FINAL);
            for follow in [false, true] {
                let mut reader = client.read("orders", ReadOptions { follow, ..Default::default() }).unwrap();
                assert_eq!(seen(&reader.try_next().await.unwrap_err()), FINAL);
            }
        }
    }

    /// What is written fails, and what the other side has said is read later.
    struct Closed {
        asked: bool,
    }

    impl AsyncRead for Closed {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if !std::mem::replace(&mut self.asked, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let alert = rustls::Error::AlertReceived(AlertDescription::CertificateExpired);
            Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, alert)))
        }
    }

    impl AsyncWrite for Closed {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_refusal_is_read_where_a_write_fails_first() {
        let alert = rustls::Error::AlertReceived(AlertDescription::CertificateExpired);
        let (hear, heard) = watch::channel(None);
        let mut watched = Watched { stream: Box::new(Closed { asked: false }), hear };
        let failure = poll_fn(|cx| Pin::new(&mut watched).poll_write(cx, b"PRI")).await.unwrap_err();
        assert_eq!(encryption::reason(&failure), Some(&alert));
        assert_eq!(*heard.borrow(), Some(Err(alert)));
        let failure = poll_fn(|cx| Pin::new(&mut watched).poll_flush(cx)).await.unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::BrokenPipe, "the reason is known already");
    }
}
