use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::errors::Position;
use crate::placement::PlacementRule;
use crate::wire;

/// What an acknowledgement rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The disks of a majority of replicas, synced.
    #[default]
    Disk,
    /// The memory of a majority of replicas.
    Memory,
}

/// What a log is created with, and can be changed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    /// Cannot be changed later.
    pub durability: Durability,
    /// Records older than this are trimmed; none: never.
    pub retention: Option<Duration>,
    /// The oldest records beyond so many bytes are trimmed; 0: never.
    pub retention_bytes: i64,
    /// How many nodes are to hold it; 0: three, or as many as there are.
    pub replicas: i32,
    /// Once a writer term has been acquired, appends without one are refused.
    pub fenced: bool,
    /// Of the configuration that was read: [`Admin::configure_log`](crate::Admin::configure_log)
    /// refuses another one. 0: whichever there is.
    pub revision: u64,
    /// The log's own. None leaves it to [`Admin::configure_log`](crate::Admin::configure_log) as it
    /// is; an empty one takes it away, so that the one of the longest prefix of the log's name holds.
    pub rule: Option<PlacementRule>,
}

impl From<LogConfig> for wire::LogConfig {
    fn from(config: LogConfig) -> wire::LogConfig {
        let durability = match config.durability {
            Durability::Disk => wire::Durability::Disk,
            Durability::Memory => wire::Durability::Memory,
        };
        wire::LogConfig {
            durability: durability.into(),
            retention: config.retention.map(wire::span),
            retention_bytes: config.retention_bytes,
            replicas: config.replicas,
            fenced: config.fenced,
            revision: config.revision,
            rule: config.rule.map(PlacementRule::into),
        }
    }
}

impl From<wire::LogConfig> for LogConfig {
    fn from(config: wire::LogConfig) -> LogConfig {
        let memory = config.durability() == wire::Durability::Memory;
        LogConfig {
            durability: if memory { Durability::Memory } else { Durability::Disk },
            retention: config.retention.map(wire::length),
            retention_bytes: config.retention_bytes,
            replicas: config.replicas,
            fenced: config.fenced,
            revision: config.revision,
            rule: config.rule.map(PlacementRule::from),
        }
    }
}

/// Where one replica of a log can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaAddress {
    /// Name of the node.
    pub node: String,
    /// HOST:PORT of the node.
    pub address: String,
    /// It leads the log.
    pub leader: bool,
    /// It follows for ever, and counts for no majority.
    pub read_replica: bool,
    /// Of the node: KEY=VALUE.
    pub labels: Vec<String>,
    /// How many records it has less than the leader; none: not known. Only
    /// [`Admin::info`](crate::Admin::info) sets it.
    pub lag: Option<i64>,
}

impl From<wire::ReplicaAddress> for ReplicaAddress {
    fn from(wire: wire::ReplicaAddress) -> ReplicaAddress {
        let wire::ReplicaAddress { node, address, leader, read_replica, labels, lag } = wire;
        ReplicaAddress { node, address, leader, read_replica, labels, lag }
    }
}

/// Nothing trims the records of its log from `offset` on, as long as it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Names it within its log: 1 to 128 bytes of text.
    pub name: String,
    /// Where it begins.
    pub offset: i64,
    /// For people: who to ask before it is released. At most 256 bytes.
    pub owner: String,
    /// How long it stays without being set or kept, 1 s to 30 days; none: until it is released.
    pub lease: Option<Duration>,
    /// Once what it keeps takes more bytes, the log's leader breaks it; 0: no bound.
    pub max_bytes: i64,
    /// Once the oldest record that it keeps is older, the log's leader breaks it; none: no bound.
    pub max_age: Option<Duration>,
    /// Where the state lies that the records below `offset` have made, for readers that come too
    /// late: up to 4 KiB that the log does not look at.
    pub pointer: Bytes,
    /// Bytes of the records from `offset` on, on the node that answered
    /// [`Admin::info`](crate::Admin::info). It is not sent.
    pub kept_bytes: i64,
    /// Who set or moved it last, such as user/alice, as [`Admin::info`](crate::Admin::info) knows.
    /// Empty: the caller may not set holds of the log, or it is not known, as where rights are not
    /// enforced. It is not sent.
    pub principal: String,
}

impl From<Hold> for wire::Hold {
    fn from(hold: Hold) -> wire::Hold {
        wire::Hold {
            name: hold.name,
            offset: hold.offset,
            owner: hold.owner,
            lease: hold.lease.map(wire::span),
            max_bytes: hold.max_bytes,
            max_age: hold.max_age.map(wire::span),
            pointer: hold.pointer,
            ..Default::default()
        }
    }
}

impl From<wire::Hold> for Hold {
    fn from(hold: wire::Hold) -> Hold {
        Hold {
            name: hold.name,
            offset: hold.offset,
            owner: hold.owner,
            lease: hold.lease.map(wire::length),
            max_bytes: hold.max_bytes,
            max_age: hold.max_age.map(wire::length),
            pointer: hold.pointer,
            kept_bytes: hold.kept_bytes,
            principal: hold.principal,
        }
    }
}

/// A log as the node that answered knows it. Offsets in [start, end) can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct LogInfo {
    /// Its name.
    pub name: String,
    /// Its id: a log that is created again under the name has another.
    pub id: u64,
    /// Its configuration.
    pub config: LogConfig,
    /// When it was created.
    pub created: Option<SystemTime>,
    /// The oldest offset.
    pub start: i64,
    /// The offset of the next record.
    pub end: i64,
    /// Disk or memory that the log takes on that node.
    pub bytes_used: i64,
    /// What that node has left for all its logs.
    pub bytes_free: i64,
    /// The newest writer term; 0: none was acquired.
    pub writer_term: u64,
    /// Sessions that have not ended.
    pub open_sessions: i32,
    /// Raft term of the leader.
    pub leader_term: u64,
    /// Address of the leader; empty: not known.
    pub leader: String,
    /// It takes no more appends.
    pub sealed: bool,
    /// Empty, or why the log cannot be served there.
    pub problem: String,
    /// No node that holds the log has answered: offsets and sizes say nothing.
    pub unknown: bool,
    /// Who holds the log, as far as known.
    pub replicas: Vec<ReplicaAddress>,
    /// By name. Only [`Admin::info`](crate::Admin::info) sets them.
    pub holds: Vec<Hold>,
}

impl From<wire::LogInfo> for LogInfo {
    fn from(info: wire::LogInfo) -> LogInfo {
        LogInfo {
            name: info.name,
            id: info.id,
            config: info.config.unwrap_or_default().into(),
            created: info.created.map(wire::moment),
            start: info.start_offset,
            end: info.end_offset,
            bytes_used: info.bytes_used,
            bytes_free: info.bytes_free,
            writer_term: info.writer_term,
            open_sessions: info.open_sessions,
            leader_term: info.leader_term,
            leader: info.leader,
            sealed: info.sealed,
            problem: info.problem,
            unknown: info.unknown,
            replicas: info.replicas.into_iter().map(ReplicaAddress::from).collect(),
            holds: info.holds.into_iter().map(Hold::from).collect(),
        }
    }
}

/// Where a log starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The oldest offset.
    pub start: i64,
    /// The offset of the next record.
    pub end: i64,
}

/// What [`Admin::acquire_writer`](crate::Admin::acquire_writer) grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterTerm {
    /// For [`ProducerOptions::writer_term`](crate::ProducerOptions::writer_term).
    pub term: u64,
    /// The end of the log when the term began: every append of an older writer that is in the log
    /// lies below.
    pub end: i64,
}

/// Makes appends at most once and in order. A producer opens and keeps its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: u64,
    /// Its epoch now.
    pub epoch: u32,
    /// How long it lives without an append or
    /// [`Admin::keep_session`](crate::Admin::keep_session).
    pub lease: Duration,
    /// Id of its log.
    pub log_id: u64,
}

impl From<Session> for Position {
    fn from(session: Session) -> Position {
        Position { log_id: session.log_id, session: session.id, epoch: session.epoch, next: 0 }
    }
}

/// What became of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveState {
    /// It is in the log.
    Committed,
    /// It is on its way; ask again.
    Pending,
    /// It is not in the log, but a request that is still on its way may bring it.
    NotNow,
    /// It is not in the log and never will be.
    Never,
    /// It is below the low-water mark or too old: the log no longer knows.
    Forgotten,
}

impl From<wire::ResolveState> for ResolveState {
    fn from(state: wire::ResolveState) -> ResolveState {
        match state {
            wire::ResolveState::Committed => ResolveState::Committed,
            wire::ResolveState::Pending => ResolveState::Pending,
            wire::ResolveState::NotNow => ResolveState::NotNow,
            wire::ResolveState::Never => ResolveState::Never,
            // Of a state of a later version nothing is known.
            wire::ResolveState::Forgotten | wire::ResolveState::Unspecified => ResolveState::Forgotten,
        }
    }
}

/// The outcome of one record of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// What became of it.
    pub state: ResolveState,
    /// Where the record is, if committed.
    pub offset: i64,
    /// The session's epoch, now.
    pub epoch: u32,
    /// The first sequence of the epoch asked for that is not in the log; all below are in it.
    /// None: the log does not know the epoch any more.
    pub next: Option<u64>,
}
