use bytes::Bytes;

use crate::errors::Error;
use crate::records::Header;
use crate::wire;

/// A condition of an append on what is in the log: no record at offset `since` or above, up to
/// the records that are appended, has one of the keys, a key that begins with one of the
/// prefixes, or one of the headers. At least one of them has to be given.
/// docs/checked-appends.md has the bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// The offset up to which the caller has read: that of the last record that it has taken into
    /// account, plus one.
    pub since: i64,
    /// No record has one of these keys.
    pub keys: Vec<Bytes>,
    /// No record has a key that begins with one of these.
    pub key_prefixes: Vec<Bytes>,
    /// No record has a header of that name with that value.
    pub headers: Vec<Header>,
}

impl TryFrom<Check> for wire::CheckedAppend {
    type Error = Error;

    fn try_from(check: Check) -> Result<wire::CheckedAppend, Error> {
        if check.since < 0 {
            return Err(Error::invalid("the offset of a check is negative"));
        }
        Ok(wire::CheckedAppend {
            since: check.since,
            keys: check.keys,
            key_prefixes: check.key_prefixes,
            headers: check.headers.into_iter().map(Into::into).collect(),
            ..Default::default()
        })
    }
}
