use std::fmt;
use std::path::PathBuf;

use tonic::transport::{Certificate, ClientTlsConfig};

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

/// Where a certificate begins in a PEM file.
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

impl Tls {
    /// Fails with what tonic would take, and fail with later.
    pub(crate) fn config(self) -> Result<ClientTlsConfig, Error> {
        let mut config = match self.authorities {
            Some(pem) if !pem.windows(CERTIFICATE.len()).any(|at| at == CERTIFICATE) => {
                return Err(Error::invalid("the authorities hold no certificate in PEM"));
            }
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some(Identity { certificate, key }) = self.identity {
            if certificate.is_empty() || key.is_empty() {
                return Err(Error::invalid("a certificate and its key belong together: both are needed"));
            }
            config = config.identity(tonic::transport::Identity::from_pem(certificate, key));
        }
        Ok(config)
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
    Fixed(ClientTlsConfig),
    Files(TlsFiles),
}

impl Security {
    /// What holds for a connection that is made now.
    pub fn config(&self) -> Result<ClientTlsConfig, Error> {
        match self {
            Security::Fixed(config) => Ok(config.clone()),
            Security::Files(files) => files.read()?.config(),
        }
    }
}
