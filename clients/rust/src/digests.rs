use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Buf, Bytes};
use prost_types::Timestamp;
use ring::digest::{Context, SHA256};

use crate::call::Deadline;
use crate::calls::{self, Calls};
use crate::errors::{Error, Outcome};
use crate::reason::Reason;
use crate::records::{Header, Record};
use crate::route::{Route, ToDialled, ToLeader};
use crate::wire;

const HEADER: usize = 61; // of a batch
const CONTENT: usize = 21; // where the content of a batch begins
const MAGIC: u8 = 2;
const LOG_APPEND_TIME: u16 = 8; // in its attributes: its records have the time when it was appended, its newest
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// The hash of a [`Digest`]. It is written and parsed in hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DigestHash(pub [u8; 32]);

impl fmt::Display for DigestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DigestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DigestHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<DigestHash, Error> {
        let mut hash = [0; 32];
        let whole = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        for (i, byte) in hash.iter_mut().enumerate() {
            let digits = if whole { &text[2 * i..2 * i + 2] } else { "" };
            let wrong = |_| Error::invalid(format!("a digest must have 64 hexadecimal digits, not {text:?}"));
            *byte = u8::from_str_radix(digits, 16).map_err(wrong)?;
        }
        Ok(DigestHash(hash))
    }
}

/// One hash of all records of a log below an offset: equal on every replica, and in a copy that
/// has the same batches at the same offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Digest {
    /// The hash.
    pub hash: DigestHash,
    /// The offset as of which it is.
    pub at: i64,
    /// Covered are the records from here to `covered`: whole batches. It is above 0 where the log
    /// has records of before there were digests.
    pub from: i64,
    /// See `from`.
    pub covered: i64,
    /// How many batches it covers.
    pub batches: u64,
    /// Of the log, as the node that answered knew it.
    pub start: i64,
    /// Of the log, as the node that answered knew it.
    pub end: i64,
}

impl Digest {
    /// A digest to prove records with, which was kept or comes from elsewhere.
    pub fn trusted(hash: DigestHash, at: i64) -> Digest {
        Digest { hash, at, ..Default::default() }
    }
}

/// Where a digest or a proof comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Source {
    /// From the leader.
    #[default]
    Leader,
    /// From the first address that answers: of what its replica knows to be committed, which may be
    /// less than others do. It needs no leader.
    Known,
}

impl Source {
    // A follower would answer of its own replica.
    fn route(self, log: &str) -> Route {
        match self {
            Source::Leader => Route::Leader(ToLeader::new(log, true)),
            Source::Known => Route::Dialled(ToDialled::default()),
        }
    }
}

pub(crate) async fn digest(
    calls: Arc<Calls>,
    log: String,
    at: Option<i64>,
    source: Source,
    deadline: Deadline,
) -> Result<Digest, Error> {
    let mut route = source.route(&log);
    let request = wire::DigestRequest { log, log_id: 0, at, allow_stale: source == Source::Known };
    let answer = calls.by(&mut route, &calls::DIGEST, request, deadline).await;
    let answer = answer.map_err(|e| e.with_outcome(Outcome::NotDone))?;
    let wrong = |_| Error::new(Reason::Corrupt, "the server answered with a digest of the wrong length");
    Ok(Digest {
        hash: DigestHash(answer.digest.as_ref().try_into().map_err(wrong)?),
        at: answer.at,
        from: answer.from,
        covered: answer.covered,
        batches: answer.batches,
        start: answer.start_offset,
        end: answer.end_offset,
    })
}

pub(crate) async fn prove(
    calls: Arc<Calls>,
    log: String,
    offset: i64,
    trusted: Digest,
    source: Source,
    deadline: Deadline,
) -> Result<Record, Error> {
    let mut route = source.route(&log);
    let allow_stale = source == Source::Known;
    let request = wire::ProveRequest { log, log_id: 0, offset, at: Some(trusted.at), allow_stale };
    let answer = calls.by(&mut route, &calls::PROVE, request, deadline).await;
    let answer = answer.map_err(|e| e.with_outcome(Outcome::NotDone))?;
    let batch = answer.batch;
    let batches = answer.digest.unwrap_or_default().batches;
    check(&batch, answer.number, batches, &answer.path, &trusted.hash)?;
    record_of(batch, offset)
}

fn unproven(message: impl Into<String>) -> Error {
    Error::new(Reason::Unproven, message)
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    parts.iter().for_each(|part| hash.update(part));
    hash.finish().as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

/// Fails with `Unproven` unless a batch lies at its base offset in the log whose digest is root.
/// The hash covers all of the batch but its place, which the leaf has too.
fn check(batch: &[u8], number: u64, batches: u64, path: &[impl AsRef<[u8]>], root: &DigestHash) -> Result<(), Error> {
    let size = batch.get(8..12).map(|mut length| i64::from(length.get_i32()) + 12);
    if batch.len() < HEADER || size != Some(batch.len() as i64) || batch[16] != MAGIC {
        return Err(unproven("the server sent something other than a batch"));
    }
    if number >= batches {
        return Err(unproven(format!("the server names batch {number} of {batches}")));
    }
    let mut found = sha256(&[&[0], &batch[..8], &sha256(&[&batch[CONTENT..]])]);
    let (mut at, mut last) = (number, batches - 1); // as RFC 9162 walks up the tree
    for beside in path.iter().map(AsRef::as_ref) {
        if last == 0 || beside.len() != 32 {
            return Err(unproven("the proof has a wrong number of hashes"));
        }
        if at & 1 == 1 || at == last {
            found = sha256(&[&[1], beside, &found]);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            found = sha256(&[&[1], &found, beside]);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    if last != 0 || found != root.0 {
        let offset = (&batch[..8]).get_i64();
        return Err(unproven(format!("under the digest there is no such batch at offset {offset}")));
    }
    Ok(())
}

/// The record of a batch that has been proved.
fn record_of(batch: Bytes, offset: i64) -> Result<Record, Error> {
    let at = |place: usize| &batch[place..];
    let (base, base_time, count) = (at(0).get_i64(), at(27).get_i64(), at(57).get_i32());
    let index = offset.checked_sub(base).filter(|index| (0..i64::from(count)).contains(index));
    let index = index.ok_or_else(|| unproven("the server proved a different batch"))?;
    let codec = usize::from(at(CONTENT).get_u16() & 7);
    if codec != 0 {
        let name = CODECS.get(codec).copied().unwrap_or("another codec");
        let message = format!("the proof is valid, but this client cannot decompress {name}");
        return Err(Error::new(Reason::Unsupported, message));
    }
    let appended = (at(CONTENT).get_u16() & LOG_APPEND_TIME != 0).then(|| at(35).get_i64());
    let mut records = batch.slice(HEADER..);
    let mut read = || {
        for _ in 0..index {
            let size = varint(&mut records)?;
            take(&mut records, size)?;
        }
        let record = record(&mut records, offset, base_time)?;
        Some(Record { timestamp: appended.map_or(record.timestamp, moment), ..record })
    };
    read().ok_or_else(|| unproven("the records of the batch cannot be read"))
}

fn varint(data: &mut Bytes) -> Option<i64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = data.try_get_u8().ok()?;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

fn take(data: &mut Bytes, size: i64) -> Option<Bytes> {
    let size = usize::try_from(size).ok().filter(|size| *size <= data.len())?;
    Some(data.split_to(size))
}

/// None within: null.
fn nullable(data: &mut Bytes) -> Option<Option<Bytes>> {
    match varint(data)? {
        -1 => Some(None),
        size => take(data, size).map(Some),
    }
}

fn record(data: &mut Bytes, offset: i64, base_time: i64) -> Option<Record> {
    varint(data)?; // the length
    take(data, 1)?; // attributes
    let millis = base_time.checked_add(varint(data)?)?;
    varint(data)?; // the offset, from that of the batch
    let (key, value) = (nullable(data)?, nullable(data)?);
    let mut headers = Vec::new();
    for _ in 0..varint(data)? {
        let key = nullable(data)?.unwrap_or_default();
        headers.push(Header { key: String::from_utf8_lossy(&key).into_owned(), value: nullable(data)? });
    }
    Some(Record { offset, timestamp: moment(millis), key, value, headers })
}

fn moment(millis: i64) -> SystemTime {
    let nanos = (millis.rem_euclid(1000) * 1_000_000) as i32;
    wire::moment(Timestamp { seconds: millis.div_euclid(1000), nanos })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// A batch of three records at offset 3, with a key, as it is stored.
    fn batch() -> Vec<u8> {
        let mut records = Vec::new();
        for i in 0..3u8 {
            let mut body = vec![0, 2 * i, 2 * i, 6];
            body.extend(b"key");
            body.extend([4, b'v', b'0' + i, 2, 2, b'h', 1]); // a header h that is null
            records.push(2 * body.len() as u8);
            records.extend(body);
        }
        let mut batch = 3i64.to_be_bytes().to_vec();
        batch.extend((49 + records.len() as i32).to_be_bytes());
        batch.extend([0, 0, 0, 2, MAGIC, 1, 2, 3, 4, 0, 0, 0, 0, 0, 2]);
        batch.extend(1_700_000_000_000i64.to_be_bytes());
        batch.extend(1_700_000_000_002i64.to_be_bytes());
        batch.extend([255; 14]);
        batch.extend(3i32.to_be_bytes());
        batch.extend(records);
        batch
    }

    fn leaf(batch: &[u8]) -> [u8; 32] {
        sha256(&[&[0], &batch[..8], &sha256(&[&batch[CONTENT..]])])
    }

    #[test]
    fn a_batch_is_proved_at_its_place_and_nowhere_else() {
        let node = |left: [u8; 32], right: [u8; 32]| sha256(&[&[1], &left, &right]);
        // It is each of five leaves in turn.
        for number in 0..5u64 {
            let leaves: Vec<_> =
                (0..5).map(|n| if n == number { leaf(&batch()) } else { sha256(&[&[n as u8]]) }).collect();
            let [a, b, c, d, e] = leaves[..] else { panic!("not five") };
            let (ab, cd) = (node(a, b), node(c, d));
            let root = DigestHash(node(node(ab, cd), e));
            let paths = [vec![b, cd, e], vec![a, cd, e], vec![d, ab, e], vec![c, ab, e], vec![node(ab, cd)]];
            let path = &paths[number as usize];
            check(&batch(), number, 5, path, &root).unwrap();
            let flipped = |at: usize| {
                let mut batch = batch();
                batch[at] ^= 1;
                batch
            };
            let longer = [&path[..], &[a]].concat();
            let last = batch().len() - 1;
            for (batch, number, batches, path, root) in [
                (batch()[..60].to_vec(), number, 5, path, root),
                (flipped(last), number, 5, path, root),
                (flipped(7), number, 5, path, root),
                (flipped(11), number, 5, path, root),
                (batch(), (number + 1) % 5, 5, path, root),
                (batch(), number, 100, path, root),
                (batch(), 5, 5, path, root),
                (batch(), number, 5, &path[1..].to_vec(), root),
                (batch(), number, 5, &longer, root),
                (batch(), number, 5, path, DigestHash(e)),
            ] {
                let error = check(&batch, number, batches, path, &root).unwrap_err();
                assert_eq!(error.reason(), &Reason::Unproven);
            }
        }
    }

    #[test]
    fn the_record_of_a_batch_is_read() {
        let record = record_of(batch().into(), 5).unwrap();
        assert_eq!(record.value.as_deref(), Some(&b"v2"[..]));
        assert_eq!(record.key.as_deref(), Some(&b"key"[..]));
        assert_eq!(record.timestamp, UNIX_EPOCH + Duration::from_millis(1_700_000_000_002));
        assert_eq!((record.offset, record.headers[0].key.as_str(), &record.headers[0].value), (5, "h", &None));
        for (batch, offset) in [(batch(), 2), (batch(), 6), (batch()[..64].to_vec(), 5)] {
            assert_eq!(record_of(batch.into(), offset).unwrap_err().reason(), &Reason::Unproven);
        }
        let mut appended = batch();
        appended[22] |= 8;
        appended[35..43].copy_from_slice(&1_700_000_009_000i64.to_be_bytes());
        let record = record_of(appended.into(), 5).unwrap();
        assert_eq!(record.timestamp, UNIX_EPOCH + Duration::from_millis(1_700_000_009_000));
        let mut compressed = batch();
        compressed[22] = 4;
        let error = record_of(compressed.into(), 4).unwrap_err();
        assert_eq!(error.reason(), &Reason::Unsupported);
        assert!(error.message().contains("zstd"));
    }

    #[test]
    fn a_hash_is_written_and_read() {
        let hash = DigestHash(sha256(&[b"any"]));
        assert_eq!(hash.to_string().parse::<DigestHash>().unwrap(), hash);
        for wrong in ["", "00", &"zz".repeat(32), &"\u{e9}".repeat(32)] {
            assert_eq!(wrong.parse::<DigestHash>().unwrap_err().reason(), &Reason::Invalid);
        }
    }
}
