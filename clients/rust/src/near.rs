use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::calls::Calls;
use crate::peers::CONNECT_PATIENCE;

/// How long a measured round trip is believed: where nodes are changes rarely.
const TRIP_LASTS: Duration = Duration::from_secs(60);

/// Knows how far nodes are, and for those who want the same labels a node that is near.
#[derive(Default)]
pub(crate) struct Near(Mutex<Known>);

#[derive(Default)]
struct Known {
    nodes: HashMap<String, String>,              // addresses
    trips: HashMap<String, (Duration, Instant)>, // the longest: no answer
}

impl Near {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("not poisoned")
    }

    pub fn at(&self, key: &str) -> Option<String> {
        self.known().nodes.get(key).cloned()
    }

    pub fn remember(&self, key: &str, address: &str) {
        self.known().nodes.insert(key.to_string(), address.to_string());
    }

    /// Notes that a node did not serve.
    pub fn forget(&self, key: &str, address: &str) {
        let mut known = self.known();
        if known.nodes.get(key).is_some_and(|near| near == address) {
            known.nodes.remove(key);
        }
    }

    fn trip(&self, address: &str) -> Option<Duration> {
        let known = self.known();
        known.trips.get(address).filter(|(_, at)| at.elapsed() < TRIP_LASTS).map(|(took, _)| *took)
    }

    /// Sorts nodes by how long they take to answer. Those of which that is not known are all asked
    /// at once. It waits for the first, and then as long again: who takes longer is far away. Where
    /// one is known already, the others are asked for the next reader.
    pub async fn sort(&self, calls: &Arc<Calls>, addresses: &mut [String], log: &str) {
        let (answered, mut answers) = mpsc::unbounded_channel();
        let mut known = addresses.len();
        for address in addresses.iter().filter(|address| self.trip(address).is_none()) {
            known -= 1;
            let (calls, address, log, answered) = (calls.clone(), address.clone(), log.to_string(), answered.clone());
            tokio::spawn(async move {
                let took = measure(&calls, &address, &log).await;
                let trip = (took.unwrap_or(Duration::MAX), Instant::now());
                calls.near.known().trips.insert(address, trip);
                let _ = answered.send(took.is_some()); // or nobody waits any more
            });
        }
        drop(answered);
        if known == 0 {
            let began = Instant::now();
            let first = async { while answers.recv().await == Some(false) {} };
            let _ = timeout(CONNECT_PATIENCE, first).await;
            let rest = async { while answers.recv().await.is_some() {} };
            let _ = timeout(began.elapsed(), rest).await;
        }
        addresses.sort_by_cached_key(|address| self.trip(address).unwrap_or(Duration::MAX));
    }
}

/// Asks a node something that it knows, once there is a connection. None: it does not answer.
async fn measure(calls: &Calls, address: &str, log: &str) -> Option<Duration> {
    let channel = timeout(2 * CONNECT_PATIENCE, calls.peers.connect(address)).await.ok()?.ok()?;
    let began = Instant::now();
    calls.known_info(channel, log).await.ok()?;
    Some(began.elapsed())
}
