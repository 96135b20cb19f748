use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::wire;

/// A program that wants the writer lease of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterClaim {
    /// Tells the program from others that want the lease: 1 to 128 bytes of text. If the program
    /// that has the lease has this name, the lease passes to this one at once.
    pub name: String,
    /// How long the lease lasts without a sign of life of its holder, 1 s to 1 h.
    pub lease: Duration,
    /// For those who watch, such as the address of the program: up to 4 KiB.
    pub payload: Bytes,
}

/// Which program has the writer lease of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterState {
    /// The newest writer term of the log. It was granted with the lease, if that is held.
    pub term: u64,
    /// Programs in line.
    pub waiting: i32,
    /// The program that has the lease; none: nobody has it.
    pub holder: Option<WriterHolder>,
}

/// The program that has the writer lease of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterHolder {
    /// What it has claimed.
    pub claim: WriterClaim,
    /// When the lease was granted, by the clock of the log's leader.
    pub since: SystemTime,
    /// How long it lasts without another sign of life.
    pub left: Duration,
}

impl From<wire::WriterState> for WriterState {
    fn from(wire: wire::WriterState) -> WriterState {
        let holder = (!wire.name.is_empty()).then(|| WriterHolder {
            claim: WriterClaim {
                name: wire.name,
                lease: wire.lease.map(wire::length).unwrap_or_default(),
                payload: wire.payload,
            },
            since: wire.since.map_or(SystemTime::UNIX_EPOCH, wire::moment),
            left: wire.left.map(wire::length).unwrap_or_default(),
        });
        WriterState { term: wire.writer_term, waiting: wire.waiting, holder }
    }
}

/// The answer to a program that wants the writer lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterGrant {
    /// The granted writer term, for
    /// [`ProducerOptions::writer_term`](crate::ProducerOptions::writer_term); 0: another program has
    /// the lease, see `state`.
    pub term: u64,
    /// The end of the log when the term began: all records of older writers are below it.
    pub end: i64,
    /// Id of the log.
    pub log_id: u64,
    /// Who has the lease now.
    pub state: WriterState,
}

impl From<wire::LeaseWriterResponse> for WriterGrant {
    fn from(wire: wire::LeaseWriterResponse) -> WriterGrant {
        WriterGrant {
            term: wire.writer_term,
            end: wire.end_offset,
            log_id: wire.log_id,
            state: wire.state.unwrap_or_default().into(),
        }
    }
}

/// Asks for the writer lease of a log.
pub(crate) fn lease_request(log: &str, log_id: u64, claim: WriterClaim, wait: Duration) -> wire::LeaseWriterRequest {
    wire::LeaseWriterRequest {
        log: log.to_string(),
        log_id,
        name: claim.name,
        payload: claim.payload,
        lease: Some(wire::span(claim.lease)),
        wait: (!wait.is_zero()).then(|| wire::span(wait)),
    }
}
