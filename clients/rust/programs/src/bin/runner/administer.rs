use serde_json::{Map, Value, json};
use strandline::{Admin, Bounds, Error, Hold, LogConfig, Place, PlacementRule, ReadReplicas, Resolution, ResolveState};

use crate::command::{Command, described, position};
use crate::writing::{claim, written};

/// Carries out a command of the admin.
pub async fn administer(admin: &Admin, c: &Command) -> Result<Value, Error> {
    let (log, at) = (c.text("log"), position(c.get("at")));
    let bounds = |b: Bounds| json!({"start": b.start, "end": b.end});
    let nothing = |()| Value::Null;
    match c.text("do") {
        "create" => c.bound(admin.create_log(log, config(c))).await.map(|info| described(&info)),
        "configure" => c.bound(admin.configure_log(log, config(c))).await.map(|info| described(&info)),
        "info" => c.bound(admin.info(log)).await.map(|info| described(&info)),
        "watch" => {
            let until: i64 = c.number("until_end").unwrap_or(0);
            let mut watch = admin.watch_info(log, c.time("interval_ms"));
            while let Some(info) = c.bound(watch.try_next()).await? {
                if info.end >= until {
                    return Ok(described(&info));
                }
            }
            Ok(Value::Null)
        }
        "list" => {
            let all = c.bound(admin.list_logs()).await?;
            let logs: Map<String, Value> = all.iter().map(|info| (info.name.clone(), described(info))).collect();
            Ok(json!({"logs": logs}))
        }
        "delete" => c.bound(admin.delete_log(log)).await.map(nothing),
        "trim" => {
            let before = c.number("before").unwrap_or(0);
            let trimming = if c.is("fast_forward") { admin.fast_forward(log, before) } else { admin.trim(log, before) };
            c.bound(trimming).await.map(bounds)
        }
        "set-hold" => {
            let set = c.bound(admin.set_hold(log, hold(c), place(c))).await?;
            Ok(json!({"offset": set.start, "end": set.end}))
        }
        "keep-hold" => c.bound(admin.keep_hold(log, c.text("hold"))).await.map(nothing),
        "release-hold" => c.bound(admin.release_hold(log, c.text("hold"))).await.map(nothing),
        "acquire-writer" => {
            let acquired = c.bound(admin.acquire_writer(log)).await?;
            Ok(json!({"writer_term": acquired.term, "end": acquired.end}))
        }
        "lease-writer" => {
            let wait = c.time("wait_ms").unwrap_or_default();
            let grant = c.bound(admin.lease_writer(log, claim(c), wait)).await?;
            let mut said = written(&grant.state);
            said["writer_term"] = grant.term.into();
            said["end"] = grant.end.into();
            Ok(said)
        }
        "keep-writer" => c.bound(admin.keep_writer(log, c.number("writer_term").unwrap_or(0))).await.map(nothing),
        "release-writer" => {
            let to = c.get("to").as_str();
            c.bound(admin.release_writer(log, c.number("writer_term").unwrap_or(0), to)).await.map(nothing)
        }
        "resolve" => c.bound(admin.resolve(log, at, c.is("final"))).await.map(resolved),
        "end-epoch" => c.bound(admin.end_epoch(log, at)).await.map(resolved),
        "open-session" => {
            let s = c.bound(admin.open_session(log, c.time("lease_ms"))).await?;
            Ok(json!({"session": s.id, "epoch": s.epoch, "log_id": s.log_id, "lease_ms": s.lease.as_millis() as u64}))
        }
        "keep-session" => c.bound(admin.keep_session(log, at)).await.map(nothing),
        "close-session" => c.bound(admin.close_session(log, at)).await.map(nothing),
        unknown => panic!("unknown command {unknown}"),
    }
}

fn config(c: &Command) -> LogConfig {
    LogConfig {
        retention: c.time("retention_ms"),
        retention_bytes: c.number("retention_bytes").unwrap_or(0),
        replicas: c.number("replicas").unwrap_or(0),
        fenced: c.is("fenced"),
        revision: c.number("revision").unwrap_or(0),
        rule: c.part("rule").map(|r| rule(&r)),
        ..LogConfig::default()
    }
}

fn rule(r: &Command) -> PlacementRule {
    let readers = r.get("read_replicas").as_array().into_iter().flatten();
    PlacementRule {
        spread: r.text("spread").to_string(),
        voters_in: r.list("voters_in"),
        voters_not_in: r.list("voters_not_in"),
        leader_homes: r.list("leader_homes"),
        read_replicas: readers
            .map(|one| ReadReplicas {
                label: one["label"].as_str().unwrap_or_default().to_string(),
                count: one["count"].as_i64().unwrap_or_default() as i32,
            })
            .collect(),
    }
}

pub fn place(c: &Command) -> Place {
    match (c.is("from_start"), c.is("tail")) {
        (true, _) => Place::Start,
        (_, true) => Place::End,
        _ => Place::Offset,
    }
}

pub fn pointer(c: &Command) -> Vec<u8> {
    let hex = c.text("pointer_hex");
    if hex.is_empty() {
        return c.text("pointer").as_bytes().to_vec();
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
}

pub fn hold(c: &Command) -> Hold {
    Hold {
        name: c.text("hold").to_string(),
        offset: c.number("offset").unwrap_or(0),
        owner: c.text("owner").to_string(),
        lease: c.time("lease_ms"),
        max_bytes: c.number("max_bytes").unwrap_or(0),
        max_age: c.time("max_age_ms"),
        pointer: pointer(c).into(),
        ..Hold::default()
    }
}

fn resolved(found: Resolution) -> Value {
    let state = match found.state {
        ResolveState::Committed => "committed",
        ResolveState::Pending => "pending",
        ResolveState::NotNow => "not now",
        ResolveState::Never => "never",
        ResolveState::Forgotten => "forgotten",
    };
    json!({
        "state": state,
        "offset": found.offset,
        "epoch": found.epoch,
        "next": found.next.unwrap_or(0),
        "known": found.next.is_some(),
    })
}
