use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};

use crate::connection::NoConnection;
use crate::logs::Hold;
use crate::reason::Reason;
use crate::wire;

const LASTING_TIME: Duration = Duration::from_millis(500);

/// What is known of the effect of a call, over all its tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Certainly without effect, now and later.
    NotDone,
    /// Perhaps done, now or yet to come. [`Admin::resolve`](crate::Admin::resolve) settles an
    /// append in a session.
    MaybeDone,
    /// Done, although its result is not known.
    Done,
}

impl Outcome {
    /// Takes note of another try: what is known never falls back.
    pub(crate) fn also(&mut self, other: Outcome) {
        *self = (*self).max(other);
    }
}

/// A place in a session: what a program keeps to continue the session after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// Id of the log.
    pub log_id: u64,
    /// Id of the session; 0: none.
    pub session: u64,
    /// Epoch of the session.
    pub epoch: u32,
    /// Sequence of the record; of a producer, that of the record accepted next.
    pub next: u64,
}

/// The error of a call that reached, or tried to reach, a log.
#[derive(Clone)]
pub struct Error(Box<Details>);

#[derive(Clone)]
struct Details {
    reason: Reason,
    message: String,
    retryable: bool,
    outcome: Outcome,
    facts: HashMap<String, String>,
    position: Option<Position>,
    hold: Option<Hold>,
    source: Option<Error>,
    lasting: bool,
}

impl Error {
    /// What went wrong, for programs.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// What went wrong, for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Reports whether the same call may succeed later or elsewhere. An append whose outcome is
    /// not [`Outcome::NotDone`] would then be a second append.
    pub fn retryable(&self) -> bool {
        self.0.retryable
    }

    /// What is known of the effect. It means nothing for a call that only reads.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Of an append in doubt: with it [`Admin::resolve`](crate::Admin::resolve) returns the
    /// outcome of the record.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// With [`Reason::Held`] the lowest hold, which keeps what was to be trimmed. With
    /// [`Reason::OffsetTrimmed`] the highest that has a pointer, if any: a reader that has
    /// loaded what the pointer leads to can continue at its offset.
    pub fn hold(&self) -> Option<&Hold> {
        self.0.hold.as_ref()
    }

    /// The start of the log, with [`Reason::OffsetTrimmed`] and [`Reason::DataLost`]; with
    /// [`Reason::CheckTooOld`] the least offset since which it can check.
    pub fn start_offset(&self) -> Option<i64> {
        self.number("start_offset")
    }

    /// The end of the log, with [`Reason::OffsetBeyondEnd`] and [`Reason::EndMismatch`].
    pub fn end_offset(&self) -> Option<i64> {
        self.number("end_offset")
    }

    /// The epoch of the session, with [`Reason::StaleEpoch`].
    pub fn epoch(&self) -> Option<u32> {
        self.number("epoch")
    }

    /// The term that has the log, with [`Reason::Fenced`].
    pub fn writer_term(&self) -> Option<u64> {
        self.number("writer_term")
    }

    /// The id of the log that has the name now, with [`Reason::LogReplaced`].
    pub fn log_id(&self) -> Option<u64> {
        self.number("log_id")
    }

    /// The limit, with [`Reason::TooLarge`].
    pub fn limit(&self) -> Option<u64> {
        self.number("limit")
    }

    /// The offset of the record, with [`Reason::FilterFailed`] and [`Reason::Conflict`].
    pub fn offset(&self) -> Option<i64> {
        self.number("offset")
    }

    /// With [`Reason::Conflict`] the key of the record at [`Error::offset`], which matches the
    /// check; none if it has none, or one of more than 1 KiB.
    pub fn key(&self) -> Option<Bytes> {
        let text = self.fact("key").map(|key| Bytes::copy_from_slice(key.as_bytes()));
        text.or_else(|| BASE64_STANDARD.decode(self.fact("key_base64")?).ok().map(Bytes::from))
    }

    /// The line of the expression, from 1, with [`Reason::FilterInvalid`].
    pub fn line(&self) -> Option<u32> {
        self.number("line")
    }

    /// The column in its line, from 1 and in characters, with [`Reason::FilterInvalid`].
    pub fn column(&self) -> Option<u32> {
        self.number("column")
    }

    /// The address of the leader, with [`Reason::NotLeader`] if it is known.
    pub fn leader(&self) -> Option<&str> {
        self.fact("leader").filter(|address| !address.is_empty())
    }

    /// What else the server said, by the names of docs/errors.md.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.0.facts.get(name).map(String::as_str)
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.fact(name)?.parse().ok()
    }

    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Error {
        Error(Box::new(Details {
            reason,
            message: message.into(),
            retryable: false,
            outcome: Outcome::NotDone,
            facts: HashMap::new(),
            position: None,
            hold: None,
            source: None,
            lasting: false,
        }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(Reason::Invalid, message)
    }

    pub(crate) fn unreachable(outcome: Outcome, message: impl Into<String>) -> Error {
        Error::new(Reason::Unreachable, message).with_retry().with_outcome(outcome)
    }

    /// The error of a connection where another try cannot help. Nothing was done: no node took what was
    /// to be sent.
    pub(crate) fn lasting(message: impl Into<String>) -> Error {
        let mut error = Error::new(Reason::Unreachable, message);
        error.0.lasting = true;
        error
    }

    pub(crate) fn closed(what: &str, outcome: Outcome) -> Error {
        Error::new(Reason::Closed, format!("the {what} is closed")).with_outcome(outcome)
    }

    pub(crate) fn cancelled(outcome: Outcome) -> Error {
        Error::new(Reason::Cancelled, "the time given for the call has passed").with_outcome(outcome)
    }

    /// The error of a record that waited behind one that failed.
    pub(crate) fn behind(first: &Error, outcome: Outcome) -> Error {
        let mut error = Error::new(Reason::BehindFailed, format!("an append before it failed: {first}"));
        error.0.retryable = first.retryable();
        error.0.source = Some(first.clone());
        error.with_outcome(outcome)
    }

    pub(crate) fn with_retry(mut self) -> Error {
        self.0.retryable = true;
        self
    }

    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Error {
        self.0.outcome = outcome;
        self
    }

    pub(crate) fn with_fact(mut self, name: &str, value: impl ToString) -> Error {
        self.0.facts.insert(name.to_string(), value.to_string());
        self
    }

    /// Adds the place of a record in doubt.
    pub(crate) fn at(mut self, position: Option<Position>) -> Error {
        if self.outcome() == Outcome::MaybeDone {
            self.0.position = position.filter(|at| at.session != 0);
        }
        self
    }

    /// Reports whether a producer repeats what was refused. FULL is for the application: only a
    /// trim helps.
    pub(crate) fn again(&self) -> bool {
        (self.retryable() || self.0.lasting) && *self.reason() != Reason::Full
    }

    /// How long to try again after this, of the time that a retry may take. After a lasting reason it
    /// is longer than a connection that failed waits before the next attempt, so that the reason is
    /// one of now, and certificates that were replaced count.
    pub(crate) fn within(&self, retry_time: Duration) -> Duration {
        if self.0.lasting { retry_time.min(LASTING_TIME) } else { retry_time }
    }

    /// Reports whether another node, or another connection, may do better.
    pub(crate) fn elsewhere(&self) -> bool {
        self.again() && !matches!(self.reason(), Reason::Busy | Reason::Unauthenticated)
    }

    /// Reports whether a token was refused and there is another one.
    pub(crate) fn renewed(&self) -> bool {
        self.retryable() && *self.reason() == Reason::Unauthenticated
    }

    pub(crate) fn ends_session(&self) -> bool {
        matches!(self.reason(), Reason::SessionExpired | Reason::SessionNotFound)
    }

    pub(crate) fn from_refusal(refusal: wire::Refusal) -> Error {
        Error::from_facts(refusal.reason, refusal.message, refusal.metadata)
    }

    /// An error from the words of a server. What is missing is assumed to be bad.
    fn from_facts(reason: String, message: String, facts: HashMap<String, String>) -> Error {
        let mut error = Error::new(reason.into(), message);
        error.0.retryable = facts.get("retryable").is_some_and(|v| v == "true");
        error.0.outcome = match facts.get("outcome").map(String::as_str) {
            Some("not_done") => Outcome::NotDone,
            Some("done") => Outcome::Done,
            _ => Outcome::MaybeDone,
        };
        error.0.facts = facts;
        error
    }

    /// The error of a call or a stream. Without an ErrorInfo of a log's it comes from something
    /// between, and what it was about may be done.
    pub(crate) fn from_status(status: &Status) -> Error {
        if let Some(error) = Error::from_details(status) {
            return error;
        }
        let message = format!("{:?}: {}", status.code(), status.message());
        if let Some(source) = std::error::Error::source(status) {
            // It is of this side: the connection broke, or there is none.
            let outcome = if NoConnection::caused(source) { Outcome::NotDone } else { Outcome::MaybeDone };
            return Error::unreachable(outcome, message);
        }
        match status.code() {
            Code::Cancelled | Code::DeadlineExceeded => Error::new(Reason::Cancelled, message),
            Code::Unimplemented => return Error::new(Reason::Unsupported, message),
            Code::ResourceExhausted => Error::new(Reason::TooLarge, message),
            Code::Unavailable | Code::Aborted | Code::Internal => Error::new(Reason::Unreachable, message).with_retry(),
            _ => Error::new(Reason::Unreachable, message),
        }
        .with_outcome(Outcome::MaybeDone)
    }

    /// The error that the details of a status describe; none if they are not of a log.
    fn from_details(status: &Status) -> Option<Error> {
        let details = RpcStatus::decode(status.details()).ok()?.details;
        let of_type = |name: &str| details.iter().filter(move |any| any.type_url.ends_with(name)).collect::<Vec<_>>();
        let infos = of_type("/google.rpc.ErrorInfo");
        let info =
            infos.iter().filter_map(|any| ErrorInfo::decode(&*any.value).ok()).find(|info| info.domain == DOMAIN)?;
        let mut error = Error::from_facts(info.reason, status.message().to_string(), info.metadata);
        let hold = of_type("/strandline.v1.Hold").first().and_then(|any| wire::Hold::decode(&*any.value).ok());
        error.0.hold = hold.map(Hold::from);
        Some(error)
    }
}

const DOMAIN: &str = "strandline.dev";

/// The part of google.rpc.Status that errors are read from.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// google.rpc.ErrorInfo.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(map = "string, string", tag = "3")]
    metadata: HashMap<String, String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason(), self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { reason, message, retryable, outcome, facts, position, .. } = &*self.0;
        f.debug_struct("Error")
            .field("reason", reason)
            .field("message", message)
            .field("retryable", retryable)
            .field("outcome", outcome)
            .field("facts", facts)
            .field("position", position)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(domain: &str) -> Status {
        let metadata =
            HashMap::from([("outcome", "not_done"), ("writer_term", "4")].map(|(k, v)| (k.into(), v.into())));
        let info = ErrorInfo { reason: "FENCED".into(), domain: domain.into(), metadata };
        let any = |kind: &str, value: Vec<u8>| prost_types::Any { type_url: format!("type/{kind}"), value };
        let hold = wire::Hold { name: "backup".into(), ..Default::default() };
        let details =
            vec![any("google.rpc.ErrorInfo", info.encode_to_vec()), any("strandline.v1.Hold", hold.encode_to_vec())];
        Status::with_details(Code::Unavailable, "words", RpcStatus { details }.encode_to_vec().into())
    }

    #[test]
    fn the_facts_of_a_status_are_read() {
        let error = Error::from_status(&status(DOMAIN));
        assert_eq!((error.reason(), error.message()), (&Reason::Fenced, "words"));
        assert_eq!((error.writer_term(), error.outcome(), error.retryable()), (Some(4), Outcome::NotDone, false));
        assert_eq!(error.hold().map(|hold| hold.name.as_str()), Some("backup"));
    }

    #[test]
    fn what_is_not_from_a_log_may_be_done() {
        for status in [status("example.org"), Status::unavailable("between"), Status::internal("between")] {
            let error = Error::from_status(&status);
            assert_eq!(
                (error.reason(), error.outcome(), error.retryable()),
                (&Reason::Unreachable, Outcome::MaybeDone, true)
            );
        }
        let error = Error::from_status(&Status::with_details(Code::DataLoss, "", vec![0xff; 9].into()));
        assert_eq!(
            (error.reason(), error.outcome(), error.retryable()),
            (&Reason::Unreachable, Outcome::MaybeDone, false)
        );
    }

    #[test]
    fn what_a_refusal_leaves_out_is_assumed_to_be_bad() {
        let metadata = HashMap::from([("end_offset".to_string(), "no number".to_string())]);
        let refusal = wire::Refusal { reason: "OF_A_LATER_VERSION".into(), metadata, ..Default::default() };
        let error = Error::from_refusal(refusal);
        assert_eq!((error.retryable(), error.outcome(), error.end_offset()), (false, Outcome::MaybeDone, None));
        assert_eq!(error.reason(), &Reason::Other("OF_A_LATER_VERSION".into()));
    }

    #[test]
    fn a_record_behind_another_says_why() {
        let first = Error::new(Reason::Sealed, "no more").with_outcome(Outcome::NotDone);
        let behind = Error::behind(&first, Outcome::NotDone);
        assert_eq!(behind.to_string(), "BEHIND_FAILED: an append before it failed: SEALED: no more");
        assert!(std::error::Error::source(&behind).is_some());
    }
}
