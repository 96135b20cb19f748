package dev.strandline.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import dev.strandline.v1.Refusal;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** The error of a call that reached, or tried to reach, a log. */
public final class StrandlineException extends RuntimeException {
  private static final long LASTING = 500_000_000; // nanoseconds
  private static final long serialVersionUID = 1;
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private final String name;
  private final Reason reason;
  private final boolean retryable;
  private final Outcome outcome;
  private final transient Map<String, String> facts;
  private final transient Position position;
  private final transient Hold hold;
  private boolean lasting; // set before anybody else has it

  private StrandlineException(
      String name,
      String message,
      boolean retryable,
      Outcome outcome,
      Map<String, String> facts,
      Position position,
      Hold hold,
      Throwable cause) {
    super(message, cause);
    this.name = name;
    this.reason = Reason.named(name);
    this.retryable = retryable;
    this.outcome = outcome;
    this.facts = facts;
    this.position = position;
    this.hold = hold;
  }

  StrandlineException(Reason reason, String message, Outcome outcome) {
    this(reason.name(), message, false, outcome, Map.of(), null, null, null);
  }

  StrandlineException(Reason reason, String message, Outcome outcome, Map<String, String> facts) {
    this(reason.name(), message, false, outcome, facts, null, null, null);
  }

  /**
   * What a future has failed with: {@code catch (CompletionException e) { throw
   * StrandlineException.of(e); }}.
   */
  public static StrandlineException of(Throwable error) {
    while ((error instanceof CompletionException || error instanceof ExecutionException)
        && error.getCause() != null) {
      error = error.getCause();
    }
    if (error instanceof StrandlineException e) {
      return e;
    }
    if (error instanceof StatusRuntimeException e) {
      return of(e.getStatus(), e.getTrailers());
    }
    if (error instanceof StatusException e) {
      return of(e.getStatus(), e.getTrailers());
    }
    return new StrandlineException(
        Reason.UNREACHABLE.name(),
        String.valueOf(error),
        true,
        Outcome.MAYBE_DONE,
        Map.of(),
        null,
        null,
        error);
  }

  /**
   * The error of a call or a stream. Without an ErrorInfo of a log's it comes from something
   * between, and what it was about may be done.
   */
  static StrandlineException of(Status status, Metadata trailers) {
    String message = status.getDescription() == null ? "" : status.getDescription();
    byte[] details = trailers == null ? null : trailers.get(DETAILS);
    StrandlineException known = details == null ? null : ofDetails(details, message);
    if (known != null) {
      return known;
    }
    return switch (status.getCode()) {
      case CANCELLED, DEADLINE_EXCEEDED ->
          new StrandlineException(Reason.CANCELLED, message, Outcome.MAYBE_DONE);
      case UNIMPLEMENTED -> new StrandlineException(Reason.UNSUPPORTED, message, Outcome.NOT_DONE);
      case RESOURCE_EXHAUSTED ->
          new StrandlineException(Reason.TOO_LARGE, message, Outcome.MAYBE_DONE);
      case UNAVAILABLE, ABORTED, INTERNAL ->
          unreachable(Outcome.MAYBE_DONE, status.getCode() + ": " + message);
      default ->
          new StrandlineException(
              Reason.UNREACHABLE, status.getCode() + ": " + message, Outcome.MAYBE_DONE);
    };
  }

  /** The error that the details of a status describe; null if none of them is of a log. */
  private static StrandlineException ofDetails(byte[] status, String message) {
    try {
      ErrorInfo info = null;
      Hold hold = null;
      for (Any detail : com.google.rpc.Status.parseFrom(status).getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          ErrorInfo found = detail.unpack(ErrorInfo.class);
          info = found.getDomain().equals("strandline.dev") ? found : info;
        } else if (detail.is(dev.strandline.v1.Hold.class)) {
          hold = Wire.hold(detail.unpack(dev.strandline.v1.Hold.class));
        }
      }
      return info == null ? null : said(info.getReason(), message, info.getMetadataMap(), hold);
    } catch (InvalidProtocolBufferException e) {
      return null; // bytes of somebody else
    }
  }

  static StrandlineException of(Refusal refusal) {
    return said(refusal.getReason(), refusal.getMessage(), refusal.getMetadataMap(), null);
  }

  /** An error from the words of a server. What is missing is assumed to be bad. */
  private static StrandlineException said(
      String name, String message, Map<String, String> facts, Hold hold) {
    return new StrandlineException(
        name,
        message,
        "true".equals(facts.get("retryable")),
        Outcome.named(facts.get("outcome")),
        Map.copyOf(facts),
        null,
        hold,
        null);
  }

  static StrandlineException invalid(String message) {
    return new StrandlineException(Reason.INVALID, message, Outcome.NOT_DONE);
  }

  static StrandlineException tooLarge(long bytes, long limit) {
    String message = "a record of " + bytes + " bytes, the limit is " + limit;
    Map<String, String> facts = Map.of("limit", Long.toString(limit));
    return new StrandlineException(Reason.TOO_LARGE, message, Outcome.NOT_DONE, facts);
  }

  static StrandlineException unreachable(Outcome outcome, String message) {
    return again(Reason.UNREACHABLE, message, outcome, Map.of());
  }

  /**
   * The error of a node that cannot be reached for a reason that another try does not change: it is
   * not tried for long.
   */
  static StrandlineException lasting(String message) {
    StrandlineException e =
        new StrandlineException(Reason.UNREACHABLE, message, Outcome.NOT_DONE, Map.of());
    e.lasting = true;
    return e;
  }

  /** An error after which another try may help. */
  static StrandlineException again(
      Reason reason, String message, Outcome outcome, Map<String, String> facts) {
    return new StrandlineException(reason.name(), message, true, outcome, facts, null, null, null);
  }

  static StrandlineException closed(String what) {
    return new StrandlineException(Reason.CLOSED, "the " + what + " is closed", Outcome.NOT_DONE);
  }

  static StrandlineException cancelled(Outcome outcome) {
    return new StrandlineException(
        Reason.CANCELLED, "the call timed out or was cancelled", outcome);
  }

  /** The error of a record that waited behind one that failed. */
  static StrandlineException behind(StrandlineException first, Outcome outcome) {
    return new StrandlineException(
        Reason.BEHIND_FAILED.name(),
        "an append before it failed: " + first.name + ": " + first.getMessage(),
        first.retryable,
        outcome,
        Map.of(),
        null,
        null,
        first);
  }

  /** A copy with another outcome, and the stack of now. */
  StrandlineException with(Outcome other) {
    return copy(retryable, other, position);
  }

  /** A copy after which another try may help. */
  StrandlineException withRetry() {
    return copy(true, outcome, position);
  }

  /** A copy with the position of the record that it is about. */
  StrandlineException at(Position place) {
    return copy(retryable, outcome, place);
  }

  private StrandlineException copy(boolean retry, Outcome known, Position place) {
    StrandlineException e =
        new StrandlineException(name, getMessage(), retry, known, facts, place, hold, getCause());
    e.lasting = lasting;
    return e;
  }

  /** What went wrong. */
  public Reason reason() {
    return reason;
  }

  /** The same as a word, also of a server of a later version. */
  public String reasonName() {
    return name;
  }

  /**
   * Whether the same call may succeed later or elsewhere. An append whose outcome is not {@link
   * Outcome#NOT_DONE} would then be a second append.
   */
  public boolean retryable() {
    return retryable;
  }

  /** What is known of the effect. It means nothing for a call that only reads. */
  public Outcome outcome() {
    return outcome;
  }

  /** Of an append in doubt: where {@link Admin#resolve} finds out about it. */
  public Optional<Position> position() {
    return Optional.ofNullable(position);
  }

  /**
   * HELD: the lowest hold, which keeps what was to be trimmed. OFFSET_TRIMMED: the highest that has
   * a pointer, if any: who has loaded what the pointer leads to can go on at its offset.
   */
  public Optional<Hold> hold() {
    return Optional.ofNullable(hold);
  }

  /** What else the server said, by name. */
  public Map<String, String> facts() {
    return facts == null ? Map.of() : facts;
  }

  /**
   * OFFSET_TRIMMED, DATA_LOST: the start of the log. CHECK_TOO_OLD: the least offset since which it
   * can check.
   */
  public long startOffset() {
    return number("start_offset");
  }

  /** OFFSET_BEYOND_END, END_MISMATCH: the end of the log. */
  public long endOffset() {
    return number("end_offset");
  }

  /** STALE_EPOCH: the epoch of the session. */
  public int epoch() {
    return (int) number("epoch");
  }

  /** FENCED: the term that holds the log. */
  public long writerTerm() {
    return number("writer_term");
  }

  /** LOG_REPLACED: the id of the log that has the name now. */
  public long logId() {
    return number("log_id");
  }

  /** TOO_LARGE: the limit. */
  public long limit() {
    return number("limit");
  }

  /** NOT_LEADER: the address of the leader, or empty. */
  public String leader() {
    return facts().getOrDefault("leader", "");
  }

  /** FILTER_FAILED, CONFLICT: the offset of the record. */
  public long offset() {
    return number("offset");
  }

  /**
   * CONFLICT: the key of the record at {@link #offset}, which matches the check; empty if it has
   * none, or one of more than 1 KiB.
   */
  public Optional<byte[]> key() {
    String text = facts().get("key");
    if (text != null) {
      return Optional.of(text.getBytes(StandardCharsets.UTF_8));
    }
    try {
      return Optional.ofNullable(facts().get("key_base64")).map(Base64.getDecoder()::decode);
    } catch (IllegalArgumentException e) {
      return Optional.empty();
    }
  }

  /** FILTER_INVALID: the line of the expression, from 1. */
  public int line() {
    return (int) number("line");
  }

  /** FILTER_INVALID: the character of the line, from 1. */
  public int column() {
    return (int) number("column");
  }

  private long number(String name) {
    try {
      return Long.parseUnsignedLong(facts().getOrDefault(name, "0"));
    } catch (NumberFormatException e) {
      return 0;
    }
  }

  /** Whether a producer repeats what was refused. FULL is for the application: a trim helps. */
  boolean again() {
    return (retryable || lasting) && reason != Reason.FULL;
  }

  /**
   * How many nanoseconds to try again after this, of those that a retry may take. After a lasting
   * reason it is longer than a connection that failed waits before the next attempt, so that the
   * reason is one of now, and certificates that were replaced count.
   */
  long within(long retry) {
    return lasting ? Math.min(LASTING, retry) : retry;
  }

  /** Whether another node, or another connection, may do better. */
  boolean elsewhere() {
    return again() && reason != Reason.BUSY && reason != Reason.UNAUTHENTICATED;
  }

  /** Whether a token was refused and there is another one. */
  boolean renewed() {
    return retryable && reason == Reason.UNAUTHENTICATED;
  }

  boolean endsSession() {
    return reason == Reason.SESSION_EXPIRED || reason == Reason.SESSION_NOT_FOUND;
  }

  boolean is(Reason other) {
    return reason == other;
  }

  @Override
  public String toString() {
    return getClass().getName() + ": " + name + ": " + getMessage();
  }
}
