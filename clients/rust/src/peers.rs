use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::Uri;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint};

use crate::connection::Connection;
use crate::encryption::{Encryption, Security};
use crate::errors::{Error, Outcome};

/// How long a node may take to take a connection while there are others to try, and to say what
/// it knows of a log.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(1);

/// The same of the only node.
const ONLY_PATIENCE: Duration = Duration::from_secs(5);

/// How long a node that could not be reached is not taken for a leader because another says so.
const AVOIDED: Duration = Duration::from_millis(250);

const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// All nodes that a client knows, and, as far as answers have said so, which one leads which log.
pub(crate) struct Peers {
    /// As given to the client; never empty.
    pub addresses: Vec<String>,
    /// Addresses other than loopback are allowed.
    pub anywhere: bool,
    security: Option<Arc<Security>>,
    closed: watch::Sender<bool>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    peers: HashMap<String, Arc<Peer>>,
    leads: HashMap<String, Lead>,
}

/// One node.
struct Peer {
    address: String,
    endpoint: Endpoint,
    security: Option<Arc<Security>>,
    encryption: Mutex<Option<Encryption>>, // of the newest connection
    connection: tokio::sync::Mutex<Option<Connection>>,
    failed: Mutex<Option<(Instant, Error)>>, // why the newest try to connect did
}

impl Peer {
    /// A channel whose connection is up. Several callers try together.
    async fn connect(&self, patience: Duration) -> Result<Channel, Error> {
        let asked = Instant::now();
        let mut connection = self.connection.lock().await;
        if let Some(channel) = connection.as_ref().and_then(Connection::channel) {
            return Ok(channel);
        }
        if let Some((at, why)) = &*self.failed.lock().expect("not poisoned")
            && *at > asked
        {
            return Err(why.clone());
        }
        *connection = None;
        let opening = Connection::open(&self.address, &self.endpoint, self.encryption());
        let made = timeout(patience, opening).await.unwrap_or_else(|_| {
            Err(Error::unreachable(Outcome::NotDone, format!("{} accepts no connections now", self.address)))
        });
        *self.failed.lock().expect("not poisoned") = made.as_ref().err().map(|why| (Instant::now(), why.clone()));
        connection.insert(made?).channel().ok_or_else(|| {
            Error::unreachable(Outcome::NotDone, format!("{} takes the connection and closes it", self.address))
        })
    }

    /// How a connection is encrypted now. Certificates that cannot be used are passed over for those read
    /// before.
    fn encryption(&self) -> Option<Encryption> {
        let mut known = self.encryption.lock().expect("not poisoned");
        if let Some(Security::Files(_)) = self.security.as_deref()
            && let Ok(newest) = encryption(&self.address, self.security.as_deref())
        {
            *known = newest;
        }
        known.clone()
    }

    fn failing(&self) -> bool {
        self.failed.lock().expect("not poisoned").as_ref().is_some_and(|(at, _)| at.elapsed() < AVOIDED)
    }
}

/// Who is believed to lead a log.
struct Lead {
    address: String,
    named: bool, // by a node; else it is only the next to be asked
    turn: usize, // of the dialled addresses
    hops: u32,   // hints followed in a row
    moved: Option<Instant>,
}

/// How many hints are followed in a row: nodes that know too little can point at each other.
const MAX_HOPS: u32 = 2;
const HOPS_FORGOTTEN: Duration = Duration::from_secs(1);

impl Peers {
    pub fn new(addresses: Vec<String>, anywhere: bool, security: Option<Security>) -> Result<Peers, Error> {
        if addresses.is_empty() {
            return Err(Error::invalid("a client needs an address"));
        }
        for address in &addresses {
            check_address(address, anywhere)?;
        }
        let security = security.map(Arc::new);
        let peers = Peers { addresses, anywhere, security, closed: watch::Sender::new(false), known: Mutex::default() };
        peers.at(&peers.addresses[0])?; // so certificates that are none are found at once
        Ok(peers)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("not poisoned")
    }

    pub fn close(&self) {
        self.closed.send_replace(true);
        self.known().peers.clear();
    }

    pub fn closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until the client is closed.
    pub async fn until_closed(&self) {
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// The node at an address, on a connection that is up. With an error nothing has been sent.
    pub async fn connect(&self, address: &str) -> Result<Channel, Error> {
        let peer = self.at(address)?;
        let patience = if self.addresses.len() > 1 { CONNECT_PATIENCE } else { ONLY_PATIENCE };
        tokio::select! {
            channel = peer.connect(patience) => channel,
            () = self.until_closed() => Err(Error::closed("client", Outcome::NotDone)),
        }
    }

    fn at(&self, address: &str) -> Result<Arc<Peer>, Error> {
        let mut known = self.known();
        if self.closed() {
            return Err(Error::closed("client", Outcome::NotDone));
        }
        if let Some(peer) = known.peers.get(address) {
            return Ok(peer.clone());
        }
        let peer = Arc::new(Peer {
            address: address.to_string(),
            endpoint: endpoint(address, self.security.is_some())?,
            security: self.security.clone(),
            encryption: Mutex::new(encryption(address, self.security.as_deref())?),
            connection: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
        });
        known.peers.insert(address.to_string(), peer.clone());
        Ok(peer)
    }

    pub fn leader(&self, log: &str) -> String {
        self.lead(&mut self.known(), log).address.clone()
    }

    /// Reports whether a node has said who leads the log, and nothing has spoken against it since.
    pub fn named(&self, log: &str) -> bool {
        self.lead(&mut self.known(), log).named
    }

    fn lead<'a>(&self, known: &'a mut Known, log: &str) -> &'a mut Lead {
        known.leads.entry(log.to_string()).or_insert_with(|| Lead {
            address: self.addresses[0].clone(),
            named: false,
            turn: 0,
            hops: 0,
            moved: None,
        })
    }

    /// Remembers who is said to lead a log.
    pub fn prefer(&self, log: &str, address: &str) {
        let mut known = self.known();
        if self.usable(&known, address) {
            let lead = self.lead(&mut known, log);
            lead.address = address.to_string();
            lead.named = true;
        }
    }

    /// Reports whether a hint is worth following: a node that just could not be reached is not,
    /// nor is "here" of a node that knows no address of its own.
    fn usable(&self, known: &Known, hint: &str) -> bool {
        let somewhere = split(hint).is_some_and(|(host, _)| !host.is_empty() && host != "0.0.0.0" && host != "::");
        let failing = known.peers.get(hint).is_some_and(|peer| peer.failing());
        somewhere && !failing && check_address(hint, self.anywhere).is_ok()
    }

    /// Notes that the node tried last does not serve the log: the next one is whom it named, or
    /// the next address of the client's. Of callers that tried the same node in vain only the
    /// first moves on.
    pub fn look_elsewhere(&self, log: &str, tried: &str, hint: Option<&str>) {
        let mut known = self.known();
        let hint = hint.filter(|hint| *hint != tried && self.usable(&known, hint));
        let lead = self.lead(&mut known, log);
        if lead.address != tried {
            return;
        }
        if lead.moved.is_none_or(|at| at.elapsed() > HOPS_FORGOTTEN) {
            lead.hops = 0;
        }
        lead.moved = Some(Instant::now());
        if let Some(hint) = hint.filter(|_| lead.hops < MAX_HOPS) {
            lead.address = hint.to_string();
            lead.named = true;
            lead.hops += 1;
            return;
        }
        lead.named = false;
        lead.hops = 0;
        for _ in 0..self.addresses.len() {
            lead.turn = (lead.turn + 1) % self.addresses.len();
            lead.address = self.addresses[lead.turn].clone();
            if lead.address != tried {
                return;
            }
        }
    }
}

fn encryption(address: &str, security: Option<&Security>) -> Result<Option<Encryption>, Error> {
    let host = split(address).map_or("", |(host, _)| host);
    security.map(|security| security.of(host)).transpose()
}

/// How HTTP/2 is spoken on a connection, which is encrypted before tonic gets it: tonic sees http, and the
/// node https.
fn endpoint(address: &str, encrypted: bool) -> Result<Endpoint, Error> {
    let uri = |scheme: &str| {
        let parsed = format!("{scheme}://{address}").parse::<Uri>();
        parsed.map_err(|e| Error::invalid(format!("connect to {address}: {e}")))
    };
    let mut endpoint = Endpoint::from(uri("http")?);
    if encrypted {
        endpoint = endpoint.origin(uri("https")?);
    }
    Ok(endpoint
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5)))
}

/// Host and port of an address.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host, port.parse().ok()?))
}

/// Fails if an address is none, or is not on this machine although it has to be.
pub(crate) fn check_address(address: &str, anywhere: bool) -> Result<(), Error> {
    let Some((host, _)) = split(address) else {
        return Err(Error::invalid(format!("address {address:?} is not HOST:PORT")));
    };
    if anywhere || host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()) {
        return Ok(());
    }
    Err(Error::invalid(format!("address {address} is not loopback: it needs tls, or insecure")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(addresses: &[&str]) -> Peers {
        Peers::new(addresses.iter().map(|a| a.to_string()).collect(), false, None).unwrap()
    }

    #[test]
    fn addresses_other_than_loopback_need_to_be_allowed() {
        for wrong in ["192.0.2.1:7171", "example.org:7171", "no address", "127.0.0.1", "127.0.0.1:x", "::1"] {
            assert!(check_address(wrong, false).is_err(), "{wrong}");
        }
        for right in ["[::1]:7171", "localhost:1", "127.9.9.9:1"] {
            check_address(right, false).unwrap();
        }
        check_address("192.0.2.1:7171", true).unwrap();
    }

    #[test]
    fn hints_are_followed_but_not_for_ever() {
        let peers = peers(&["127.0.0.1:1", "127.0.0.1:2"]);
        assert_eq!(peers.leader("orders"), "127.0.0.1:1");
        peers.look_elsewhere("orders", "127.0.0.1:1", Some("127.0.0.1:7"));
        assert_eq!((peers.leader("orders").as_str(), peers.named("orders")), ("127.0.0.1:7", true));
        peers.look_elsewhere("orders", "127.0.0.1:1", Some("127.0.0.1:9")); // another caller, which is late
        assert_eq!(peers.leader("orders"), "127.0.0.1:7");
        peers.look_elsewhere("orders", "127.0.0.1:7", Some("127.0.0.1:8"));
        peers.look_elsewhere("orders", "127.0.0.1:8", Some("127.0.0.1:7"));
        assert_eq!((peers.leader("orders").as_str(), peers.named("orders")), ("127.0.0.1:2", false));
    }

    #[test]
    fn hints_that_lead_nowhere_are_not_followed() {
        let peers = peers(&["127.0.0.1:1", "127.0.0.1:2"]);
        for hint in ["", "0.0.0.0:1", "[::]:1", ":1", "192.0.2.1:1", "127.0.0.1:1"] {
            peers.look_elsewhere("orders", "127.0.0.1:1", Some(hint));
            assert_eq!(peers.leader("orders"), "127.0.0.1:2", "{hint}");
            peers.look_elsewhere("orders", "127.0.0.1:2", None);
        }
    }
}
