use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::{Admin, Place};
use crate::call::Call;
use crate::calls::Calls;
use crate::digests::{self, Digest, Source};
use crate::encryption::{Security, Tls, TlsFiles};
use crate::ends;
use crate::environment::environment;
use crate::errors::{Error, Outcome};
use crate::kept_hold::KeptHold;
use crate::logs::Hold;
use crate::peers::Peers;
use crate::producer::Producer;
use crate::producer_options::ProducerOptions;
use crate::read_options::ReadOptions;
use crate::reader::Reader;
use crate::records::Record;
use crate::token::Token;
use crate::writer_lease::WriterLease;
use crate::writers::WriterClaim;

/// Is called with a log and an error whenever a producer or reader of it cannot continue and tries
/// again, and with no error when it continues.
pub type TroubleHandler = Arc<dyn Fn(&str, Option<&Error>) + Send + Sync>;

/// How to connect.
#[derive(Clone)]
pub struct ClientOptions {
    /// None, and no `tls_files`: connections are not encrypted.
    pub tls: Option<Tls>,
    /// The same with files, which are read again for each new connection.
    pub tls_files: Option<TlsFiles>,
    /// Allows addresses other than loopback without TLS.
    pub insecure: bool,
    /// It is sent with every call and stream, as `authorization: Bearer`; without TLS in clear, also
    /// to the addresses that `insecure` allows.
    pub token: Option<Token>,
    /// How long calls of [`Admin`], and the opening of a producer or a reader, go on looking for a
    /// node that can answer (5 s); zero tries every address once.
    pub retry_time: Duration,
    /// Hears when producers and readers try again, and when they continue. It is called by their
    /// tasks, and must return soon.
    pub on_trouble: Option<TroubleHandler>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            tls: None,
            tls_files: None,
            insecure: false,
            token: None,
            retry_time: Duration::from_secs(5),
            on_trouble: None,
        }
    }
}

/// Holds the connections to a cluster, one to each node that it needs. Clones share them.
#[derive(Clone)]
pub struct Client {
    pub(crate) calls: Arc<Calls>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("addresses", &self.calls.peers.addresses).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of nodes on this machine, without encryption: see [`Client::with_options`].
    pub fn new<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Result<Client, Error> {
        Client::with_options(addresses, ClientOptions::default())
    }

    /// A client of the nodes at some addresses (HOST:PORT), of which one that is up is enough; the
    /// leader of each log is found. Nothing is connected before something is asked for.
    ///
    /// # Errors
    ///
    /// [`Reason::Invalid`](crate::Reason::Invalid): no address, one that is not HOST:PORT, or one
    /// beyond this machine without TLS or `insecure`; a token or certificates that are none.
    pub fn with_options<A: Into<String>>(
        addresses: impl IntoIterator<Item = A>,
        options: ClientOptions,
    ) -> Result<Client, Error> {
        let security = match (options.tls, options.tls_files) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("tls and tls_files are both given: give one of them"));
            }
            (Some(tls), None) => Some(Security::Fixed(tls.config()?)),
            (None, Some(files)) => Some(Security::Files(files)),
            (None, None) => None,
        };
        let anywhere = options.insecure || security.is_some();
        let addresses = addresses.into_iter().map(Into::into).collect();
        let peers = Peers::new(addresses, anywhere, security)?;
        let calls = Arc::new(Calls::new(peers, options.retry_time, options.token, options.on_trouble)?);
        Ok(Client { calls })
    }

    /// A client as the variables say that the command line takes too: STRANDLINE_SERVER (addresses
    /// with commas between them; 127.0.0.1:7171), STRANDLINE_TLS_CA, STRANDLINE_TLS_CERT,
    /// STRANDLINE_TLS_KEY, STRANDLINE_TOKEN_FILE or else STRANDLINE_TOKEN, and STRANDLINE_INSECURE.
    ///
    /// # Errors
    ///
    /// As [`Client::with_options`], and if a file cannot be read.
    pub fn from_environment() -> Result<Client, Error> {
        Client::from_variables(|name| std::env::var(name).ok(), |_| ())
    }

    /// The same with variables of the caller's, and options that it changes: what `change` sets
    /// counts more.
    ///
    /// # Errors
    ///
    /// As [`Client::from_environment`].
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
        change: impl FnOnce(&mut ClientOptions),
    ) -> Result<Client, Error> {
        let (addresses, mut options) = environment(variable)?;
        change(&mut options);
        Client::with_options(addresses, options)
    }

    /// The verbs beside append and read.
    pub fn admin(&self) -> Admin {
        Admin::new(self.calls.clone())
    }

    /// Where a log ends, by its leader and a majority of its replicas: every record that was
    /// acknowledged before lies below. Callers share calls: those who come while one is under way
    /// are answered together by the next.
    pub fn end(&self, log: &str) -> Call<'static, i64> {
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| async move { deadline.bound(Outcome::NotDone, ends::end(calls, log)).await })
    }

    /// The digest of a log as of an offset from its start to its end; none: its end.
    ///
    /// # Errors
    ///
    /// [`Reason::Precondition`](crate::Reason::Precondition): there was none yet.
    pub fn digest(&self, log: &str, at: Option<i64>, source: Source) -> Call<'static, Digest> {
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| digests::digest(calls, log, at, source, deadline))
    }

    /// Returns a record once it is proved to be in the log that has the hash of a trusted digest as
    /// of its `at`: [`Digest::trusted`].
    ///
    /// # Errors
    ///
    /// [`Reason::Unproven`](crate::Reason::Unproven): what the server sent does not prove it.
    /// [`Reason::Unsupported`](crate::Reason::Unsupported): it is proved, but compressed.
    pub fn prove(&self, log: &str, offset: i64, trusted: Digest, source: Source) -> Call<'static, Record> {
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| digests::prove(calls, log, offset, trusted, source, deadline))
    }

    /// Sets a hold as [`Admin::set_hold`] does and, if it has a lease, renews that until it is
    /// released, closed or dropped, or the client is closed: a program that dies keeps nothing for
    /// longer than the lease. It is renewed on the runtime in which this call is awaited.
    pub fn hold(&self, log: &str, hold: Hold, place: Place) -> Call<'static, KeptHold> {
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| KeptHold::open(calls, log, hold, place, deadline))
    }

    /// Waits in line until this program has the writer lease of a log, and renews it until it is
    /// released, handed over, closed or dropped, or the client is closed. Append with its term:
    /// [`ProducerOptions::writer_term`]. It is renewed on the runtime in which this call is awaited.
    ///
    /// If the client has had the lease under the name before and has not released it, this pauses for
    /// up to a second first: another program of the name may have taken it.
    pub fn lease_writer(&self, log: &str, claim: WriterClaim) -> Call<'static, WriterLease> {
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| WriterLease::open(calls, log, claim, deadline))
    }

    /// Begins to append to a log that exists, in a session of its own. Of an error nothing is in
    /// the log.
    pub fn producer(&self, log: &str) -> Call<'static, Producer> {
        self.producer_with(log, ProducerOptions::default())
    }

    /// Begins to append to a log that exists. Of an error nothing is in the log.
    pub fn producer_with(&self, log: &str, options: ProducerOptions) -> Call<'static, Producer> {
        let (calls, log) = (self.calls.clone(), log.to_string());
        Call::new(move |deadline| Producer::open(calls, log, options, deadline))
    }

    /// Reads a log. It asks nobody yet.
    ///
    /// # Errors
    ///
    /// [`Reason::Invalid`](crate::Reason::Invalid): an offset or a bound is negative.
    pub fn read(&self, log: &str, options: ReadOptions) -> Result<Reader, Error> {
        Reader::new(self.calls.clone(), log, options)
    }

    /// Ends every connection, for all clones of the client. Close producers first: what they have
    /// in flight is in doubt otherwise.
    pub fn close(&self) {
        self.calls.peers.close();
    }
}
