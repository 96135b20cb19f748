//! Commands about the writer of a log.
use serde_json::{Value, json};
use strandline::{Admin, Error, WriterClaim, WriterState, WriterStream};
use tokio::sync::Mutex;

use crate::command::Command;

/// The name of a lease that the library renews.
pub fn own(c: &Command) -> String {
    format!("{} {}", c.text("log"), c.text("name"))
}

pub fn claim(c: &Command) -> WriterClaim {
    WriterClaim {
        name: c.text("name").to_string(),
        lease: c.time("lease_ms").unwrap_or_default(),
        payload: c.text("payload").to_string().into(),
    }
}

/// Who has the writer lease, as answers say it.
pub fn written(state: &WriterState) -> Value {
    let mut said = json!({"writer_term": state.term, "waiting": state.waiting, "holder": null});
    if let Some(holder) = &state.holder {
        let since = holder.since.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        said["holder"] = holder.claim.name.clone().into();
        said["payload"] = String::from_utf8_lossy(&holder.claim.payload).into();
        said["lease_ms"] = (holder.claim.lease.as_millis() as u64).into();
        said["since_ms"] = (since.as_millis() as u64).into();
        said["left_ms"] = (holder.left.as_millis() as u64).into();
    }
    said
}

/// Who is seen to be the writer of a log.
pub struct WriterWatch(Mutex<Seen>);

struct Seen {
    states: WriterStream,
    holders: Vec<String>, // by term, in order
}

impl WriterWatch {
    pub fn new(admin: &Admin, c: &Command) -> WriterWatch {
        let states = admin.watch_writer(c.text("log"), c.time("interval_ms"));
        WriterWatch(Mutex::new(Seen { states, holders: Vec::new() }))
    }

    /// Continues until the state is as it is to be.
    pub async fn reach(&self, c: &Command) -> Result<Value, Error> {
        let mut seen = self.0.lock().await;
        while let Some(state) = c.bound(seen.states.try_next()).await? {
            let holder = state.holder.as_ref().map_or("-", |holder| &holder.claim.name);
            let now = format!("{}:{holder}", state.term);
            if seen.holders.last() != Some(&now) {
                seen.holders.push(now);
            }
            let there = state.term >= c.number("until_term").unwrap_or(0)
                && c.get("until_held").as_bool().is_none_or(|held| held == state.holder.is_some())
                && c.number("until_waiting").is_none_or(|waiting: i32| waiting == state.waiting);
            if there {
                let mut said = written(&state);
                said["seen"] = seen.holders.clone().into();
                return Ok(said);
            }
        }
        panic!("the watch has ended")
    }
}
