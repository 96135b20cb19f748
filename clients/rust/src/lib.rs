//! Client of Strandline, a replicated write-ahead log.
//!
//! Begin with [`Client`]. A [`Producer`] appends records, each at most once, a [`Reader`] is a
//! stream of records, and [`Admin`] has the other verbs. Every [`Error`] says whether the same
//! call may succeed later ([`Error::retryable`]) and whether it may have had an effect
//! ([`Error::outcome`]).
//!
//! ```no_run
//! # async fn program() -> Result<(), strandline::Error> {
//! use strandline::{Client, ReadOptions, Start};
//!
//! let client = Client::new(["127.0.0.1:7171"])?;
//! let producer = client.producer("orders").await?;
//! let offset = producer.append("first").await?;
//! producer.close().await?;
//!
//! let mut reader = client.read("orders", ReadOptions { start: Start::Offset(offset), ..Default::default() })?;
//! while let Some(record) = reader.try_next().await? {
//!     println!("{} {:?}", record.offset, record.value);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Everything runs on the tokio runtime in which it is awaited. Dropping a [`Producer`] or a
//! [`Reader`] ends its tasks and streams.
#![warn(missing_docs)]

mod admin;

mod backlog;
mod call;
mod calls;
mod checks;
mod client;
mod codec;
mod connection;
mod digests;
mod encryption;
mod ends;
mod environment;
mod errors;
mod kept_hold;
mod logs;
mod near;
mod pauses;
mod peers;
mod pending;
mod placement;
mod producer;
mod producer_options;
mod producer_session;
mod read_options;
mod reader;
mod reading;
mod reason;
mod records;
mod renewed;
mod repair;
mod request;
mod rounds;
mod route;
mod shared;
mod silence;
mod states;
mod stats;
mod token;
mod watch;
mod window;
mod wire;
mod writer_lease;
mod writers;

pub use admin::{Admin, Place};
pub use call::Call;
pub use checks::Check;
pub use client::{Client, ClientOptions, TroubleHandler};
pub use digests::{Digest, DigestHash, Source};
pub use encryption::{Identity, Tls, TlsFiles};
pub use errors::{Error, Outcome, Position};
pub use kept_hold::KeptHold;
pub use logs::{
    Bounds, Durability, Hold, LogConfig, LogInfo, ReplicaAddress, Resolution, ResolveState, Session, WriterTerm,
};
pub use pending::Pending;
pub use placement::{PlacementRule, ReadReplicas};
pub use producer::Producer;
pub use producer_options::{Batch, ProducerOptions, Sessions};
pub use read_options::{FailedRecord, Filter, Freshness, Prefer, Projection, ReadOptions, Start};
pub use reader::{Next, Progress, Reader};
pub use reason::Reason;
pub use records::{Header, MAX_RECORD_BYTES, NewRecord, Record};
pub use states::{InfoStream, WriterStream};
pub use stats::{Histogram, Stats};
pub use token::Token;
pub use writer_lease::WriterLease;
pub use writers::{WriterClaim, WriterGrant, WriterHolder, WriterState};
