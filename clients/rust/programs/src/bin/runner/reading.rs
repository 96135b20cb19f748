use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};
use strandline::{Error, Filter, Freshness, Header, Prefer, Progress, Projection, ReadOptions, Reader, Record, Start};
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::command::{Command, failed};

/// A reader, and the records that it has left out so far.
pub struct Reading {
    reader: Mutex<(Reader, Vec<i64>)>,
    progress: Progress,
}

impl Reading {
    pub fn new(reader: Reader) -> Reading {
        Reading { progress: reader.progress(), reader: Mutex::new((reader, Vec::new())) }
    }

    /// Waits until all below an offset has been looked at.
    pub async fn reach(&self, offset: i64) -> Result<Value, Error> {
        while self.progress.offset().is_none_or(|at| at < offset) {
            sleep(Duration::from_millis(2)).await;
        }
        Ok(json!({"offset": self.progress.offset(), "end": self.progress.end()}))
    }

    pub async fn read(&self, c: &Command) -> Result<Value, Error> {
        let (reader, left_out) = &mut *self.reader.lock().await;
        let (mut got, mut ended, mut then): (Vec<Record>, _, _) = (Vec::new(), false, None);
        while got.len() < c.number("count").unwrap_or(0) && !ended && then.is_none() {
            let next = reader.try_next();
            let next = match c.left() {
                Some(left) => next.within(left),
                None => next,
            };
            match next.await {
                Ok(Some(record)) => got.push(record),
                Ok(None) => ended = true,
                Err(error) if got.is_empty() => return Err(error),
                Err(error) => then = Some(failed(&error)),
            }
        }
        left_out.extend(reader.take_failed().iter().map(|f| f.offset));
        let all = |what: fn(&Record) -> Value| got.iter().map(what).collect::<Vec<_>>();
        let mut answer = json!({
            "ended": ended,
            "offsets": all(|r| r.offset.into()),
            "values": all(|r| text(&r.value)),
            "keys": all(|r| text(&r.key)),
            "headers": all(|r| headers(&r.headers)),
            "times": all(|r| since_1970(r.timestamp).into()),
            "log_id": reader.log_id(),
            "next": reader.offset(),
            "end": reader.end(),
            "age_ms": reader.age().map(|age| age.as_millis() as u64),
            "failed": left_out,
        });
        if let Some(then) = then {
            answer["then"] = then;
        }
        Ok(answer)
    }
}

/// The first value of a loop that is left there.
pub async fn first(mut reader: Reader) -> Result<Value, Error> {
    let record = reader.try_next().await?;
    Ok(json!({"value": record.map(|r| text(&r.value))}))
}

/// A record that has been proved.
pub fn proved(r: &Record) -> Value {
    let time = since_1970(r.timestamp);
    json!({
        "offset": r.offset, "value": text(&r.value), "key": text(&r.key), "headers": headers(&r.headers), "time": time,
    })
}

/// Milliseconds, below 0 for earlier times.
fn since_1970(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_millis() as i64,
        Err(before) => -(before.duration().as_millis() as i64),
    }
}

fn text(bytes: &Option<Bytes>) -> Value {
    bytes.as_deref().map(|bytes| String::from_utf8_lossy(bytes)).into()
}

fn headers(all: &[Header]) -> Value {
    let value = |h: &Header| String::from_utf8_lossy(h.value.as_deref().unwrap_or_default()).into_owned();
    let words: Vec<String> = all.iter().map(|h| format!("{}={}", h.key, value(h))).collect();
    if words.is_empty() { Value::Null } else { words.join(",").into() }
}

pub fn read_options(c: &Command) -> ReadOptions {
    let defaults = ReadOptions::default();
    let start = match (c.number("offset"), c.moment("time_ms")) {
        (Some(offset), _) => Start::Offset(offset),
        (_, Some(time)) => Start::Time(time),
        _ if c.is("tail") => Start::Tail,
        _ => Start::Oldest,
    };
    let freshness = match (c.number("at_least"), c.time("max_staleness_ms")) {
        (Some(offset), _) => Freshness::AtLeast(offset),
        (_, Some(age)) => Freshness::Within(age),
        _ if c.is("any_replica") => Freshness::Any,
        _ => Freshness::Linearizable,
    };
    ReadOptions {
        start,
        freshness,
        log_id: c.number("log_id").unwrap_or(0),
        follow: c.is("follow"),
        max_records: c.number("max_records"),
        max_bytes: c.number("max_bytes"),
        until_offset: c.number("until_offset"),
        until_time: c.moment("until_time_ms"),
        prefer: if c.has(&["near"]) {
            Some(Prefer::Nearest(c.list("near")))
        } else {
            c.is("prefer_follower").then_some(Prefer::Follower)
        },
        heartbeat: c.time("heartbeat_ms").unwrap_or(defaults.heartbeat),
        filter: c.has(&["keys", "prefixes", "headers", "where"]).then(|| filter(c)),
        projection: c.has(&["drop", "value_bytes", "json_fields"]).then(|| projection(c)),
    }
}

fn filter(c: &Command) -> Filter {
    Filter {
        keys: c.list("keys"),
        key_prefixes: c.list("prefixes"),
        headers: c.headers(),
        expression: c.text("where").to_string(),
        skip_failed: c.is("skip_failed"),
    }
}

fn projection(c: &Command) -> Projection {
    let drop: Vec<String> = c.list("drop");
    let drops = |what: &str| drop.iter().any(|dropped| dropped == what);
    Projection {
        drop_key: drops("key"),
        drop_value: drops("value"),
        drop_headers: drops("headers"),
        value_bytes: c.number("value_bytes").unwrap_or(0),
        json_fields: c.list("json_fields"),
    }
}
