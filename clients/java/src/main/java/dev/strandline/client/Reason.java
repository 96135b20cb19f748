package dev.strandline.client;

/** Why a call failed. The page on errors describes each. */
public enum Reason {
  /** The request is malformed. */
  INVALID,
  /** Over {@link StrandlineException#limit}. */
  TOO_LARGE,
  /** There is no log of that name. */
  LOG_NOT_FOUND,
  /** The name is taken. */
  LOG_EXISTS,
  /** Another log has the name now, with the id {@link StrandlineException#logId}. */
  LOG_REPLACED,
  /** The offset is gone; {@link StrandlineException#startOffset} is the oldest that is there. */
  OFFSET_TRIMMED,
  /** The log ends before, at {@link StrandlineException#endOffset}. */
  OFFSET_BEYOND_END,
  /** The session was never opened, or ended long ago. */
  SESSION_NOT_FOUND,
  /** The session was closed, or its lease ran out. */
  SESSION_EXPIRED,
  /** The session is in a newer {@link StrandlineException#epoch}. */
  STALE_EPOCH,
  /** An append before this one is missing. */
  SEQUENCE_GAP,
  /** It was appended; its offset is no longer known. */
  OUTCOME_FORGOTTEN,
  /** A newer writer, of {@link StrandlineException#writerTerm}, holds the log. */
  FENCED,
  /** The log ends at {@link StrandlineException#endOffset}, and not where the append expected. */
  END_MISMATCH,
  /** A record that the check of the append does not allow is in the log. */
  CONFLICT,
  /** The log can check from {@link StrandlineException#startOffset} on, and not from before. */
  CHECK_TOO_OLD,
  /** Another node leads the log. */
  NOT_LEADER,
  /** A disk is nearly full: trim, delete, or make room. */
  FULL,
  /** A queue or budget of the node is full. */
  BUSY,
  /** The log takes no more appends. */
  SEALED,
  /** Leadership or the node was lost on the way. */
  OUTCOME_UNKNOWN,
  /** A disk failed. */
  STORAGE_FAILED,
  /** Bytes do not match their checksum, or a frame does not follow the one before. */
  CORRUPT,
  /** A log in memory lost its memory; it continues at {@link StrandlineException#startOffset}. */
  DATA_LOST,
  /** The node is stopping. */
  SHUTTING_DOWN,
  /** The version of the server cannot do that. */
  UNSUPPORTED,
  /** No replica keeps the bound of staleness that the read asks for. */
  STALE,
  /** There is no node of that name, or it does not hold the log. */
  NO_NODE,
  /** The node is in no cluster yet. */
  NOT_MEMBER,
  /** The cluster or the log is not in the state that the change needs. */
  PRECONDITION,
  /** {@link StrandlineException#hold} keeps what the trim would drop. */
  HELD,
  /** There is no hold of that name. */
  HOLD_NOT_FOUND,
  /** The caller has not proved who it is. */
  UNAUTHENTICATED,
  /** The caller has no right to do that. */
  PERMISSION_DENIED,
  /** The expression of a filter is wrong. */
  FILTER_INVALID,
  /** The expression of a filter fails on a record. */
  FILTER_FAILED,

  /** What a server sent does not prove that the record is in the log. */
  UNPROVEN,
  /** No node answered, or the connection broke. */
  UNREACHABLE,
  /** A record had no answer within {@link ProducerOptions#recordTimeout}. */
  TIMED_OUT,
  /** The time of the call was up, its future was cancelled or its thread interrupted. */
  CANCELLED,
  /** The client, producer or reader has been closed. */
  CLOSED,
  /** A record before this one failed, and none slips ahead. The cause is that error. */
  BEHIND_FAILED,

  /** A reason of a later version: {@link StrandlineException#reasonName}. */
  OTHER;

  static Reason named(String name) {
    try {
      return valueOf(name);
    } catch (IllegalArgumentException e) {
      return OTHER;
    }
  }
}
