use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, AlertDescription, ClientConfig, InvalidMessage, RootCertStore};

use crate::errors::Error;

/// Encrypts every connection. The fields hold what PEM files do.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The authorities by whose certificates nodes are believed; none: those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Shows who the client is.
    pub identity: Option<Identity>,
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, with those between it and its authority.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The protocol that both sides have to agree on.
const HTTP2: &[u8] = b"h2";

impl Tls {
    /// Fails with INVALID if the certificates or the key are none, or if the key is not the certificate's.
    pub(crate) fn config(self) -> Result<Arc<ClientConfig>, Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(match self.authorities {
            Some(pem) => certificates(&pem, "the authorities")?,
            None => rustls_native_certs::load_native_certs().certs,
        });
        if roots.is_empty() {
            return Err(Error::invalid("no certificate of an authority can be used, so no node can be verified"));
        }
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()));
        let wrong = |e: rustls::Error| Error::invalid(format!("the certificate and its key cannot be used: {e}"));
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(wrong)?.with_root_certificates(roots);
        let mut config = match self.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) if certificate.is_empty() || key.is_empty() => {
                return Err(Error::invalid("a certificate and its key belong together: both are needed"));
            }
            Some(Identity { certificate, key }) => {
                let key = PrivateKeyDer::from_pem_slice(&key)
                    .map_err(|e| Error::invalid(format!("the key of the certificate is no private key in PEM: {e}")))?;
                builder.with_client_auth_cert(certificates(&certificate, "the certificate")?, key).map_err(wrong)?
            }
        };
        config.alpn_protocols.push(HTTP2.to_vec());
        Ok(Arc::new(config))
    }
}

/// The certificates of a PEM file, of which there has to be one.
fn certificates(pem: &[u8], whose: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(Error::invalid(format!("{whose}: no certificate in PEM"))),
        Ok(found) => Ok(found),
        Err(e) => Err(Error::invalid(format!("{whose}: no certificates in PEM: {e}"))),
    }
}

/// Encrypts every connection with what PEM files hold when it is made: certificates can be replaced
/// while a client runs. Files that cannot be used then are passed over for those read before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities by whose certificates nodes are believed; none: those of the system.
    pub authorities: Option<PathBuf>,
    /// With `key`: shows who the client is.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    fn read(&self) -> Result<Tls, Error> {
        let read = |path: &Option<PathBuf>| {
            let failed = |path: &PathBuf, e| Error::invalid(format!("{} cannot be read: {e}", path.display()));
            path.as_ref().map(|path| std::fs::read(path).map_err(|e| failed(path, e))).transpose()
        };
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let identity = (certificate.is_some() || key.is_some())
            .then(|| Identity { certificate: certificate.unwrap_or_default(), key: key.unwrap_or_default() });
        Ok(Tls { authorities: read(&self.authorities)?, identity })
    }
}

/// How connections are encrypted.
pub(crate) enum Security {
    Fixed(Arc<ClientConfig>),
    Files(TlsFiles),
}

impl Security {
    /// What holds for a connection to a host that is made now.
    pub fn of(&self, host: &str) -> Result<Encryption, Error> {
        let config = match self {
            Security::Fixed(config) => config.clone(),
            Security::Files(files) => files.read()?.config()?,
        };
        let wrong = |_| Error::invalid(format!("{host:?} is no name that a certificate can have"));
        Ok(Encryption { config, host: ServerName::try_from(host.to_string()).map_err(wrong)? })
    }
}

/// Encrypts connections to one host.
#[derive(Clone)]
pub(crate) struct Encryption {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

impl Encryption {
    /// Encrypts a connection. In TLS 1.3 the node may still refuse the client's certificate: the first
    /// read says so.
    pub async fn encrypt(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let stream = TlsConnector::from(self.config.clone()).connect(self.host.clone(), stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return Err(io::Error::other("it speaks TLS, but not HTTP/2"));
        }
        Ok(stream)
    }
}

/// What TLS says of a connection that failed; none: it failed below TLS.
pub(crate) fn reason(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Reports whether another try cannot help: a node's certificate is not believed or does not name it, the
/// node does not encrypt, or it refuses the client's certificate or the lack of one.
pub(crate) fn lasts(why: &rustls::Error) -> bool {
    match why {
        rustls::Error::InvalidCertificate(_) | rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            true
        }
        rustls::Error::AlertReceived(alert) => REFUSED.contains(alert),
        _ => false,
    }
}

/// The alerts of a node that refuses a certificate.
const REFUSED: [AlertDescription; 7] = [
    AlertDescription::BadCertificate,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnknownCA,
    AlertDescription::CertificateRequired,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_try_helps_unless_a_certificate_is_refused() {
        let of = |why: rustls::Error| lasts(reason(&io::Error::new(io::ErrorKind::InvalidData, why)).unwrap());
        for alert in [42, 43, 44, 45, 46, 48, 116] {
            assert!(of(rustls::Error::AlertReceived(alert.into())), "{alert}");
        }
        for alert in [0, 20, 40, 49, 70, 80, 112, 120] {
            assert!(!of(rustls::Error::AlertReceived(alert.into())), "{alert}");
        }
        assert!(of(rustls::Error::InvalidCertificate(rustls::CertificateError::Expired)));
        assert!(of(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)));
        assert!(!of(rustls::Error::General("of this side".into())));
        assert!(reason(&io::ErrorKind::ConnectionReset.into()).is_none());
    }
}
