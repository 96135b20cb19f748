//! Messages as they are on the wire, and their conversion to what users see. The code below
//! `wire` is generated: `cargo run` in clients/rust/generate.
#![allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, dead_code)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

include!("wire/strandline.v1.rs");

pub(crate) fn span(d: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: i64::try_from(d.as_secs()).unwrap_or(i64::MAX), nanos: d.subsec_nanos() as i32 }
}

/// A negative span is none.
pub(crate) fn length(d: prost_types::Duration) -> Duration {
    d.try_into().unwrap_or_default()
}

pub(crate) fn moment(t: prost_types::Timestamp) -> SystemTime {
    t.try_into().unwrap_or(UNIX_EPOCH)
}
