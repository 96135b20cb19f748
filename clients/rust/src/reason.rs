use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a call failed. docs/errors.md says of each what to do.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
            /// A reason of a later version of the server.
            Other(String),
        }

        impl Reason {
            /// The name of the reason, as docs/errors.md lists it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Reason::$name => $text,)*
                    Reason::Other(name) => name,
                }
            }
        }

        impl From<String> for Reason {
            fn from(name: String) -> Reason {
                match name.as_str() {
                    $($text => Reason::$name,)*
                    _ => Reason::Other(name),
                }
            }
        }
    };
}

reasons! {
    /// The request is malformed.
    Invalid = "INVALID",
    /// It exceeds a limit, which [`Error::limit`](crate::Error::limit) returns.
    TooLarge = "TOO_LARGE",
    /// There is no log of that name.
    LogNotFound = "LOG_NOT_FOUND",
    /// The name is taken.
    LogExists = "LOG_EXISTS",
    /// The name belongs to another log by now.
    LogReplaced = "LOG_REPLACED",
    /// The offset is below the start of the log.
    OffsetTrimmed = "OFFSET_TRIMMED",
    /// The offset is beyond the end of the log.
    OffsetBeyondEnd = "OFFSET_BEYOND_END",
    /// The session was never opened, or it ended long ago.
    SessionNotFound = "SESSION_NOT_FOUND",
    /// The session was closed, or its lease ran out.
    SessionExpired = "SESSION_EXPIRED",
    /// The session is in a later epoch.
    StaleEpoch = "STALE_EPOCH",
    /// An append of the session before this one is missing.
    SequenceGap = "SEQUENCE_GAP",
    /// It was appended before; its offset is no longer known.
    OutcomeForgotten = "OUTCOME_FORGOTTEN",
    /// A writer with a higher term has the log.
    Fenced = "FENCED",
    /// The log does not end where the append expected.
    EndMismatch = "END_MISMATCH",
    /// A record that the check of the append does not allow is in the log.
    Conflict = "CONFLICT",
    /// The log can check from [`Error::start_offset`](crate::Error::start_offset) on, and not from before.
    CheckTooOld = "CHECK_TOO_OLD",
    /// Another node leads the log.
    NotLeader = "NOT_LEADER",
    /// The disk is nearly full.
    Full = "FULL",
    /// A queue or a budget of the node is full.
    Busy = "BUSY",
    /// The log takes no more appends.
    Sealed = "SEALED",
    /// Leadership or the node was lost on the way.
    OutcomeUnknown = "OUTCOME_UNKNOWN",
    /// A disk of the node has failed.
    StorageFailed = "STORAGE_FAILED",
    /// Bytes do not match their checksum, or frames do not follow each other.
    Corrupt = "CORRUPT",
    /// A log in memory has lost it.
    DataLost = "DATA_LOST",
    /// The node is stopping.
    ShuttingDown = "SHUTTING_DOWN",
    /// This version of the server cannot do that.
    Unsupported = "UNSUPPORTED",
    /// No replica keeps the bound of staleness.
    Stale = "STALE",
    /// There is no node of that name, or it does not hold the log.
    NoNode = "NO_NODE",
    /// The node is in no cluster yet.
    NotMember = "NOT_MEMBER",
    /// The cluster or the configuration is not in the state that the change needs.
    Precondition = "PRECONDITION",
    /// A hold keeps what the trim would remove: [`Error::hold`](crate::Error::hold).
    Held = "HELD",
    /// There is no hold of that name.
    HoldNotFound = "HOLD_NOT_FOUND",
    /// The caller has not proved who it is.
    Unauthenticated = "UNAUTHENTICATED",
    /// The caller has no right to do that.
    PermissionDenied = "PERMISSION_DENIED",
    /// The expression of a filter is wrong.
    FilterInvalid = "FILTER_INVALID",
    /// The expression of a filter fails on a record.
    FilterFailed = "FILTER_FAILED",
    /// What a server sent does not prove that the record is in the log.
    Unproven = "UNPROVEN",
    /// No node answered, or the connection broke.
    Unreachable = "UNREACHABLE",
    /// A record had no answer within [`ProducerOptions::record_timeout`](crate::ProducerOptions::record_timeout).
    TimedOut = "TIMED_OUT",
    /// The time that the caller gave ended first: [`Call::within`](crate::Call::within).
    Cancelled = "CANCELLED",
    /// The client or producer has been closed.
    Closed = "CLOSED",
    /// A record before this one failed, and none slips ahead. The source of the error is why.
    BehindFailed = "BEHIND_FAILED",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
