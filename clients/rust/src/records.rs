use std::ops::RangeInclusive;
use std::time::SystemTime;

use bytes::Bytes;

use crate::errors::Error;
use crate::reason::Reason;
use crate::wire;

/// Bounds one record: its key, value and headers together. It also bounds what
/// [`Producer::append_batch`](crate::Producer::append_batch) takes. In bytes.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// About what a record takes beside its key and value.
const OVERHEAD: usize = 24;

/// A named value beside a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub key: String,
    /// Its value; none is Kafka's null, which differs from an empty one.
    pub value: Option<Bytes>,
}

/// What is appended. A string or bytes are a record with that value and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// None is Kafka's null, which differs from an empty value.
    pub value: Option<Bytes>,
    /// None is Kafka's null, which differs from an empty key.
    pub key: Option<Bytes>,
    /// In the order in which they are kept.
    pub headers: Vec<Header>,
    /// The producer's time, to the millisecond, of the years 1 to 9999; none: the server's.
    pub timestamp: Option<SystemTime>,
}

macro_rules! values {
    ($($kind:ty: $convert:expr),* $(,)?) => {
        $(impl From<$kind> for NewRecord {
            fn from(value: $kind) -> NewRecord {
                NewRecord { value: Some($convert(value)), ..NewRecord::default() }
            }
        })*
    };
}

values! {
    Bytes: Bytes::from,
    Vec<u8>: Bytes::from,
    String: Bytes::from,
    &str: |value: &str| Bytes::copy_from_slice(value.as_bytes()),
    &[u8]: Bytes::copy_from_slice,
}

/// One record of a log. Its bytes share the memory of the frame that it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it is in its log.
    pub offset: i64,
    /// When it was appended: the producer's time or the server's.
    pub timestamp: SystemTime,
    /// None is Kafka's null, which differs from an empty key.
    pub key: Option<Bytes>,
    /// None is Kafka's null, which differs from an empty value.
    pub value: Option<Bytes>,
    /// In the order in which they were appended.
    pub headers: Vec<Header>,
}

fn len(bytes: &Option<Bytes>) -> usize {
    bytes.as_ref().map_or(0, Bytes::len)
}

impl wire::Record {
    /// About how many bytes the record takes on the wire.
    pub(crate) fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|h| 12 + h.key.len() + len(&h.value)).sum();
        OVERHEAD + len(&self.key) + len(&self.value) + headers
    }
}

/// Fails if records that take so much are over the limit.
pub(crate) fn check_size(size: usize, records: usize) -> Result<(), Error> {
    let bytes = size - OVERHEAD * records;
    if bytes <= MAX_RECORD_BYTES {
        return Ok(());
    }
    let message = format!("a record of {bytes} bytes, the limit is {MAX_RECORD_BYTES}");
    Err(Error::new(Reason::TooLarge, message).with_fact("limit", MAX_RECORD_BYTES))
}

/// The seconds since 1970 that a message can hold as a time: those of the years 1 to 9999.
const SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Fails if a record has a time that no message can hold: a server would refuse what travels
/// with it, too.
pub(crate) fn check_time(record: &wire::Record) -> Result<(), Error> {
    match &record.timestamp {
        Some(time) if !SECONDS.contains(&time.seconds) => {
            Err(Error::invalid("the timestamp of a record is not in the years 1 to 9999"))
        }
        _ => Ok(()),
    }
}

impl From<NewRecord> for wire::Record {
    fn from(record: NewRecord) -> wire::Record {
        wire::Record {
            offset: 0,
            timestamp: record.timestamp.map(Into::into),
            key: record.key,
            value: record.value,
            headers: record.headers.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<wire::Record> for Record {
    fn from(record: wire::Record) -> Record {
        Record {
            offset: record.offset,
            timestamp: wire::moment(record.timestamp.unwrap_or_default()),
            key: record.key,
            value: record.value,
            headers: record.headers.into_iter().map(|h| Header { key: h.key, value: h.value }).collect(),
        }
    }
}

impl From<Header> for wire::Header {
    fn from(header: Header) -> wire::Header {
        wire::Header { key: header.key, value: header.value }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn times_that_no_message_holds_are_refused() {
        let at = |timestamp| wire::Record::from(NewRecord { timestamp: Some(timestamp), ..NewRecord::default() });
        let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
        check_time(&at(last)).unwrap();
        check_time(&at(UNIX_EPOCH - Duration::from_secs(1))).unwrap();
        check_time(&NewRecord::default().into()).unwrap();
        let error = check_time(&at(last + Duration::from_secs(1))).unwrap_err();
        assert_eq!((error.reason(), error.retryable()), (&Reason::Invalid, false));
    }
}
