//! Commands, and how what the client says is written in answers.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use strandline::{Call, Error, Header, Hold, LogInfo, Outcome, PlacementRule, Position};
use tokio::time::Instant;

/// One line to the runner, and when its time ends.
pub struct Command {
    fields: Value,
    until: Option<Instant>,
}

impl Command {
    pub fn parse(line: &str) -> Command {
        let fields: Value = serde_json::from_str(line).expect("a command is JSON");
        let until = fields["timeout_ms"].as_u64().map(|ms| Instant::now() + Duration::from_millis(ms));
        Command { fields, until }
    }

    pub fn get(&self, name: &str) -> &Value {
        &self.fields[name]
    }

    pub fn text(&self, name: &str) -> &str {
        self.fields[name].as_str().unwrap_or_default()
    }

    pub fn is(&self, name: &str) -> bool {
        self.fields[name] == true
    }

    pub fn number<N: TryFrom<i64>>(&self, name: &str) -> Option<N> {
        N::try_from(self.fields[name].as_i64()?).ok()
    }

    pub fn time(&self, name: &str) -> Option<Duration> {
        self.fields[name].as_u64().map(Duration::from_millis)
    }

    pub fn moment(&self, name: &str) -> Option<SystemTime> {
        let ms: i64 = self.number(name)?;
        let span = Duration::from_millis(ms.unsigned_abs());
        Some(if ms < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span })
    }

    pub fn list<T: From<String>>(&self, name: &str) -> Vec<T> {
        let values = self.fields[name].as_array().into_iter().flatten();
        values.filter_map(Value::as_str).map(|v| T::from(v.to_string())).collect()
    }

    /// The headers that the field of that name says.
    pub fn headers(&self) -> Vec<Header> {
        let header = |(name, value): (&String, &Value)| Header {
            key: name.clone(),
            value: value.as_str().map(|v| v.to_string().into()),
        };
        self.fields["headers"].as_object().into_iter().flatten().map(header).collect()
    }

    /// A field with fields of its own.
    pub fn part(&self, name: &str) -> Option<Command> {
        let fields = self.fields[name].clone();
        fields.is_object().then_some(Command { fields, until: self.until })
    }

    /// Reports whether one of the fields is there.
    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| !self.fields[*name].is_null())
    }

    /// What is left of the command's time.
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// The call, within the command's time.
    pub fn bound<'a, T>(&self, call: Call<'a, T>) -> Call<'a, T> {
        match self.left() {
            Some(left) => call.within(left),
            None => call,
        }
    }
}

pub fn failed(error: &Error) -> Value {
    let at = error.position().unwrap_or_default();
    let outcome = match error.outcome() {
        Outcome::NotDone => "not_done",
        Outcome::MaybeDone => "maybe_done",
        Outcome::Done => "done",
    };
    json!({
        "reason": error.reason().as_str(),
        "message": error.message(),
        "retryable": error.retryable(),
        "outcome": outcome,
        "start": error.start_offset().unwrap_or(0),
        "end": error.end_offset().unwrap_or(0),
        "epoch": error.position().map(|at| at.epoch).or(error.epoch()).unwrap_or(0),
        "session": at.session,
        "sequence": at.next,
        "log_id": error.position().map(|at| at.log_id).or(error.log_id()).unwrap_or(0),
        "writer_term": error.writer_term().unwrap_or(0),
        "leader": error.leader().unwrap_or(""),
        "offset": error.offset().unwrap_or(0),
        "key": error.key().map(|key| String::from_utf8_lossy(&key).into_owned()),
        "line": error.line().unwrap_or(0),
        "column": error.column().unwrap_or(0),
        "hold": error.hold().map(holding),
    })
}

fn milliseconds(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| time.as_millis() as u64)
}

pub fn holding(hold: &Hold) -> Value {
    json!({
        "name": hold.name,
        "offset": hold.offset,
        "owner": hold.owner,
        "lease_ms": milliseconds(hold.lease),
        "max_bytes": hold.max_bytes,
        "max_age_ms": milliseconds(hold.max_age),
        "pointer": String::from_utf8_lossy(&hold.pointer),
        "pointer_hex": hold.pointer.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "principal": hold.principal,
    })
}

pub fn described(info: &LogInfo) -> Value {
    let holds: Map<String, Value> = info.holds.iter().map(|hold| (hold.name.clone(), holding(hold))).collect();
    json!({
        "name": info.name,
        "id": info.id,
        "start": info.start,
        "end": info.end,
        "writer_term": info.writer_term,
        "leader": info.leader,
        "sessions": info.open_sessions,
        "replicas": info.replicas.len(),
        "retention_ms": milliseconds(info.config.retention),
        "retention_bytes": info.config.retention_bytes,
        "fenced": info.config.fenced,
        "revision": info.config.revision,
        "rule": info.config.rule.as_ref().map(placing),
        "holds": holds,
    })
}

fn placing(rule: &PlacementRule) -> Value {
    let readers: Vec<Value> =
        rule.read_replicas.iter().map(|one| json!({"label": one.label, "count": one.count})).collect();
    json!({
        "spread": rule.spread,
        "voters_in": rule.voters_in,
        "voters_not_in": rule.voters_not_in,
        "leader_homes": rule.leader_homes,
        "read_replicas": readers,
    })
}

pub fn position(at: &Value) -> Position {
    let number = |name: &str| at[name].as_u64().unwrap_or(0);
    Position {
        log_id: number("log_id"),
        session: number("session"),
        epoch: number("epoch") as u32,
        next: number("next"),
    }
}

pub fn shown(at: Position) -> Value {
    json!({"log_id": at.log_id, "session": at.session, "epoch": at.epoch, "next": at.next})
}
