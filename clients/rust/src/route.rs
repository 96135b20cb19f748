use std::sync::Arc;

use tokio::time::timeout;
use tonic::transport::Channel;

use crate::calls::Calls;
use crate::errors::Error;
use crate::peers::{CONNECT_PATIENCE, check_address};
use crate::wire;

/// Finds the node to ask.
pub(crate) enum Route {
    Leader(ToLeader),
    Dialled(ToDialled),
    Replica(ToReplica),
}

impl Route {
    /// The node whose turn it is, on a connection that is up. With an error nothing has been sent.
    pub async fn connect(&mut self, calls: &Arc<Calls>) -> Result<Channel, Error> {
        match self {
            Route::Leader(route) => route.connect(calls).await,
            Route::Dialled(route) => route.connect(calls).await,
            Route::Replica(route) => route.connect(calls).await,
        }
    }

    /// The address of the node that was connected to, and the log whose leader is looked for;
    /// empty: other nodes answer as well.
    pub fn asked<'a>(&'a self, calls: &'a Calls) -> (&'a str, &'a str) {
        match self {
            Route::Leader(route) => (&route.tried, &route.log),
            Route::Dialled(route) => (route.address(calls), ""),
            Route::Replica(route) => (route.holders.last().map_or("", String::as_str), ""),
        }
    }

    /// Notes that the node tried does not serve, and moves on.
    pub fn elsewhere(&mut self, calls: &Calls, failure: &Error) {
        match self {
            Route::Leader(route) => calls.peers.look_elsewhere(&route.log, &route.tried, failure.leader()),
            Route::Dialled(route) => route.elsewhere(calls),
            Route::Replica(route) => route.elsewhere(calls),
        }
    }

    /// How many nodes may be tried, after a failure, before it is time to pause.
    pub fn width(&self, calls: &Calls, failure: &Error) -> usize {
        let dialled = calls.peers.addresses.len();
        match self {
            Route::Leader(_) => dialled + usize::from(failure.leader().is_some()),
            Route::Dialled(_) => dialled,
            Route::Replica(route) => dialled.max(route.found),
        }
    }
}

/// The way to the node that leads a log. All who use it share what is known. A read has to ask
/// first: it is not turned away by a node that does not lead.
pub(crate) struct ToLeader {
    log: String,
    ask: bool,
    tried: String,
}

impl ToLeader {
    pub fn new(log: &str, ask: bool) -> ToLeader {
        ToLeader { log: log.to_string(), ask, tried: String::new() }
    }

    async fn connect(&mut self, calls: &Calls) -> Result<Channel, Error> {
        let channel = self.believed(calls).await?;
        if !self.ask || calls.peers.named(&self.log) {
            return Ok(channel);
        }
        match calls.known_info(channel.clone(), &self.log).await {
            Ok(info) => calls.peers.prefer(&self.log, &info.leader),
            Err(_) => return Ok(channel), // which answers the read, or says why it does not
        }
        self.believed(calls).await
    }

    async fn believed(&mut self, calls: &Calls) -> Result<Channel, Error> {
        self.tried = calls.peers.leader(&self.log);
        calls.peers.connect(&self.tried).await
    }
}

/// Stays with one of the client's addresses as long as it serves, and follows no hint.
#[derive(Default)]
pub(crate) struct ToDialled {
    turn: usize,
}

impl ToDialled {
    async fn connect(&self, calls: &Calls) -> Result<Channel, Error> {
        calls.peers.connect(self.address(calls)).await
    }

    fn address<'a>(&self, calls: &'a Calls) -> &'a str {
        &calls.peers.addresses[self.turn]
    }

    fn elsewhere(&mut self, calls: &Calls) {
        self.turn = (self.turn + 1) % calls.peers.addresses.len();
    }
}

/// The way to the replicas of a log, the best first. Who they are is asked again when all have been
/// tried.
///
/// With labels those are best whose nodes have the first of them, then the second, and so on, and
/// of equal ones the nearest by measured round trip. Without, voters that do not lead are tried at
/// random, then read replicas, which may be far away, and the leader last.
pub(crate) struct ToReplica {
    log: String,
    labels: Option<Vec<String>>,
    ask: ToDialled,
    holders: Vec<String>, // the next one is the last
    found: usize,
    tried: bool, // the next holder, and not who knows them
}

impl ToReplica {
    pub fn new(log: &str, labels: Option<Vec<String>>) -> ToReplica {
        let ask = ToDialled::default();
        ToReplica { log: log.to_string(), labels, ask, holders: Vec::new(), found: 0, tried: false }
    }

    async fn connect(&mut self, calls: &Arc<Calls>) -> Result<Channel, Error> {
        if self.holders.is_empty() {
            self.tried = false;
            self.find(calls).await?;
        }
        self.tried = true;
        calls.peers.connect(self.holders.last().expect("one was found")).await
    }

    async fn find(&mut self, calls: &Arc<Calls>) -> Result<(), Error> {
        let info = match self.ask_near(calls).await {
            Some(info) => info,
            None => calls.known_info(self.ask.connect(calls).await?, &self.log).await?,
        };
        let mut replicas = info.replicas;
        replicas.retain(|r| check_address(&r.address, calls.peers.anywhere).is_ok());
        self.holders = self.sort(replicas, calls).await;
        if self.holders.is_empty() {
            self.holders.push(self.ask.address(calls).to_string());
        }
        self.found = self.holders.len();
        self.holders.reverse();
        Ok(())
    }

    /// What those have in common whose nearest nodes are the same; none: no node is nearer.
    fn key(&self) -> Option<String> {
        self.labels.as_ref().map(|labels| labels.join(","))
    }

    /// What the node knows that was the nearest for an earlier reader: one of the client's
    /// addresses may be far away. None: there is no such node, or it does not answer.
    async fn ask_near(&self, calls: &Calls) -> Option<wire::LogInfo> {
        let key = self.key()?;
        let address = calls.near.at(&key)?;
        let asked = timeout(CONNECT_PATIENCE, async {
            calls.known_info(calls.peers.connect(&address).await?, &self.log).await
        });
        let info = asked.await.ok().and_then(Result::ok);
        if info.is_none() {
            calls.near.forget(&key, &address);
        }
        info
    }

    fn rank(&self, replica: &wire::ReplicaAddress) -> usize {
        match &self.labels {
            Some(labels) => labels.iter().position(|l| replica.labels.contains(l)).unwrap_or(labels.len()),
            None if replica.leader => 2,
            None => usize::from(replica.read_replica),
        }
    }

    async fn sort(&self, mut replicas: Vec<wire::ReplicaAddress>, calls: &Arc<Calls>) -> Vec<String> {
        fastrand::shuffle(&mut replicas);
        replicas.sort_by_key(|r| self.rank(r));
        let best = replicas.iter().take_while(|r| self.rank(r) == self.rank(&replicas[0])).count();
        let mut addresses: Vec<String> = replicas.into_iter().map(|r| r.address).collect();
        if let Some(key) = self.key()
            && best > 0
        {
            if best > 1 {
                calls.near.sort(calls, &mut addresses[..best], &self.log).await;
            }
            calls.near.remember(&key, &addresses[0]);
        }
        addresses
    }

    fn elsewhere(&mut self, calls: &Calls) {
        if self.tried
            && let Some(address) = self.holders.pop()
            && let Some(key) = self.key()
        {
            calls.near.forget(&key, &address);
        }
        if self.holders.is_empty() {
            self.ask.elsewhere(calls);
        }
    }
}
