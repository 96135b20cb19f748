package dev.strandline.client;

import java.util.OptionalLong;

/**
 * The outcome of one record of a session.
 *
 * @param state what became of it
 * @param offset where the record is, if committed
 * @param epoch the session's, now
 * @param next the first sequence of the epoch asked for that is not in the log; all below are in
 *     it. Empty: the log does not know the epoch any more
 */
public record Resolution(State state, long offset, int epoch, OptionalLong next) {
  /** What became of one record. */
  public enum State {
    /** It is in the log. */
    COMMITTED,
    /** It is on its way; ask again. */
    PENDING,
    /** It is not in the log, but a request still under way may bring it. */
    NOT_NOW,
    /** It is not in the log, and never will be. */
    NEVER,
    /** It is below the low-water mark or too old; the log no longer knows. */
    FORGOTTEN
  }
}
