use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::errors::Error;
use crate::records::Header;
use crate::wire;

/// Where a read begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record that is still there.
    #[default]
    Oldest,
    /// At an offset.
    Offset(i64),
    /// At the first record appended at or after a time, by the leader's clock.
    Time(SystemTime),
    /// At the end of the log, as it is when the read is opened.
    Tail,
}

/// How fresh a read is. All but the first ask only the addresses given to the client, unless
/// [`ReadOptions::prefer`] is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// Everything that was acknowledged before the read began, from the leader.
    #[default]
    Linearizable,
    /// What the answering node knows.
    Any,
    /// The answering node waits until it knows the log up to this offset.
    AtLeast(i64),
    /// What the answering node knew at most this long ago.
    Within(Duration),
}

/// Which replicas a read is from. When a node is lost, or refuses, the reader continues at the next
/// offset on the next best, and stays there; the log never goes back for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// A voter that does not lead, while there is one, then a read replica, which may be far away,
    /// and the leader last.
    Follower,
    /// The nearest, whatever its role: one on a node with the first of the labels (KEY=VALUE, such as
    /// `dc=syd`), then with the second, and so on; without labels, and among equal ones, the one
    /// that answers soonest.
    ///
    /// With [`Freshness::Any`] or [`Freshness::Within`] the read costs no round trip to the leader;
    /// a linearizable one asks the leader once, at the beginning.
    Nearest(Vec<String>),
}

/// Selects records at the server: those for which all conditions that are set hold.
/// docs/filters.md describes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The key is one of these.
    pub keys: Vec<Bytes>,
    /// The key begins with one of these.
    pub key_prefixes: Vec<Bytes>,
    /// For each, a header of that name has that value.
    pub headers: Vec<Header>,
    /// An expression in CEL that is true. A fault in it is
    /// [`Reason::FilterInvalid`](crate::Reason::FilterInvalid).
    pub expression: String,
    /// Records that the expression fails on are left out, and
    /// [`Reader::take_failed`](crate::Reader::take_failed) returns them. Otherwise the first ends
    /// the read with [`Reason::FilterFailed`](crate::Reason::FilterFailed).
    pub skip_failed: bool,
}

/// Says what of a record is not sent: it looks as if it had been appended without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// No key.
    pub drop_key: bool,
    /// No value.
    pub drop_value: bool,
    /// No headers.
    pub drop_headers: bool,
    /// So many bytes of the value at most; 0: all.
    pub value_bytes: i64,
    /// Of a value that is a JSON object only these fields: of an object in it, `a.b` is the field
    /// b of a. Any other value becomes null.
    pub json_fields: Vec<String>,
}

/// A record that the expression of a filter failed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRecord {
    /// Its offset.
    pub offset: i64,
    /// Why, for people.
    pub message: String,
}

/// What a reader reads. It ends at the end of the log, unless it follows, or at the first limit.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Where it begins.
    pub start: Start,
    /// The id of the log in which a kept offset has its meaning; 0: whichever log has the name.
    pub log_id: u64,
    /// It waits for more at the end of the log.
    pub follow: bool,
    /// It ends after so many records.
    pub max_records: Option<u64>,
    /// It ends after about so many bytes, as they are stored; at least one batch is read.
    pub max_bytes: Option<u64>,
    /// The first offset that is not read.
    pub until_offset: Option<i64>,
    /// Records appended at or after this time, by the leader's clock, are not read.
    pub until_time: Option<SystemTime>,
    /// How fresh it is.
    pub freshness: Freshness,
    /// Which replicas are read from; none: as the freshness says.
    pub prefer: Option<Prefer>,
    /// How often a server with nothing to send says so (5 s); after three times as long without a
    /// frame another connection is opened.
    pub heartbeat: Duration,
    /// Which records are read; none: all.
    pub filter: Option<Filter>,
    /// What of them is read; none: all.
    pub projection: Option<Projection>,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            start: Start::Oldest,
            log_id: 0,
            follow: false,
            max_records: None,
            max_bytes: None,
            until_offset: None,
            until_time: None,
            freshness: Freshness::Linearizable,
            prefer: None,
            heartbeat: Duration::from_secs(5),
            filter: None,
            projection: None,
        }
    }
}

/// The least bound that a node takes: a leader sends its end to the others about as often.
const LEAST_STALENESS: Duration = Duration::from_millis(100);

impl ReadOptions {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let place = matches!(self.start, Start::Offset(offset) if offset < 0);
        let bound = match self.freshness {
            Freshness::AtLeast(offset) => offset < 0,
            Freshness::Within(age) => age < LEAST_STALENESS,
            Freshness::Linearizable | Freshness::Any => false,
        };
        if place || bound || self.heartbeat.is_zero() {
            return Err(Error::invalid(
                "an offset of the read is negative, no silence at all is allowed, or a staleness below 100 ms",
            ));
        }
        Ok(())
    }

    /// Reports whether a limit ends the read.
    pub(crate) fn limited(&self) -> bool {
        self.max_records.is_some()
            || self.max_bytes.is_some()
            || self.until_offset.is_some()
            || self.until_time.is_some()
    }

    /// Reports whether frames may leave records out.
    pub(crate) fn selects(&self) -> bool {
        self.filter.is_some() || self.projection.is_some()
    }

    pub(crate) fn consistency(&self) -> wire::read_request::Consistency {
        use wire::ReadConsistency as Level;
        use wire::read_request::Consistency;
        match self.freshness {
            Freshness::Linearizable => Consistency::Level(Level::Linearizable.into()),
            Freshness::Any => Consistency::Level(Level::Any.into()),
            Freshness::AtLeast(offset) => Consistency::AtLeastOffset(offset),
            Freshness::Within(age) => Consistency::MaxAge(wire::span(age)),
        }
    }
}

impl From<Filter> for wire::Filter {
    fn from(filter: Filter) -> wire::Filter {
        wire::Filter {
            keys: filter.keys,
            key_prefixes: filter.key_prefixes,
            headers: filter.headers.into_iter().map(Into::into).collect(),
            r#where: filter.expression,
            skip_failed: filter.skip_failed,
        }
    }
}

impl From<Projection> for wire::Projection {
    fn from(projection: Projection) -> wire::Projection {
        let Projection { drop_key, drop_value, drop_headers, value_bytes, json_fields } = projection;
        wire::Projection { drop_key, drop_value, drop_headers, value_bytes, json_fields }
    }
}
