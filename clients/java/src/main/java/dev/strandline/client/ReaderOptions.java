package dev.strandline.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/**
 * What a reader reads: {@code client.read("orders", o -> o.offset(7).follow())}.
 *
 * <p>It begins at an offset, a time, or the tail, or else at the oldest record. It ends at the end
 * of the log, unless it is to follow, or at the first limit. It reads from the leader, everything
 * that was acknowledged before it began, unless {@link #anyReplica}, {@link #atLeast} or {@link
 * #maxStaleness} says otherwise: these ask only the addresses given to the client, unless {@link
 * #preferFollower} or {@link #nearest} is there.
 */
public final class ReaderOptions {
  /** Leaders tell followers how far they are about as often. */
  private static final Duration LEAST_STALENESS = Duration.ofMillis(100);

  Long offset;
  Instant time;
  boolean tail;
  long logId;
  boolean follow;
  long maxRecords;
  long maxBytes;
  Long untilOffset;
  Instant untilTime;
  boolean anyReplica;
  Long atLeast;
  Duration maxStaleness;
  boolean byReplica;
  List<String> nearest; // labels; null: followers are preferred
  Duration heartbeat = Duration.ofSeconds(5);
  Filter filter;
  Projection projection;
  BiConsumer<Long, Long> onProgress = (offset, end) -> {};

  ReaderOptions() {}

  /** Begins at an offset. */
  public ReaderOptions offset(long first) {
    offset = first;
    return this;
  }

  /** Begins at the first record appended at or after a time, by the leader's clock. */
  public ReaderOptions time(Instant from) {
    time = from;
    return this;
  }

  /** Begins at the tail as it is when the reader is opened. */
  public ReaderOptions tail() {
    tail = true;
    return this;
  }

  /** The id of the log in which a kept offset has its meaning: see {@link Reader#logId}. */
  public ReaderOptions logId(long id) {
    logId = id;
    return this;
  }

  /** Waits for more at the end of the log. */
  public ReaderOptions follow() {
    follow = true;
    return this;
  }

  /** Ends after so many records. */
  public ReaderOptions maxRecords(long records) {
    maxRecords = records;
    return this;
  }

  /** Ends after about so many bytes, as they are stored; at least one batch is read. */
  public ReaderOptions maxBytes(long bytes) {
    maxBytes = bytes;
    return this;
  }

  /** Ends before an offset. */
  public ReaderOptions untilOffset(long end) {
    untilOffset = end;
    return this;
  }

  /** Ends before the first record appended at or after a time, by the leader's clock. */
  public ReaderOptions untilTime(Instant end) {
    untilTime = end;
    return this;
  }

  /** Reads what the answering node knows. */
  public ReaderOptions anyReplica() {
    anyReplica = true;
    return this;
  }

  /** Waits until the answering node knows the log up to this offset. */
  public ReaderOptions atLeast(long end) {
    atLeast = end;
    return this;
  }

  /** Bounds the age of what the answering node knows: 100 ms or more. */
  public ReaderOptions maxStaleness(Duration age) {
    maxStaleness = age;
    return this;
  }

  /**
   * Reads from a voter that does not lead, while there is one, then from a read replica, which may
   * be far away, and from the leader last. Of this and {@link #nearest} the last counts.
   */
  public ReaderOptions preferFollower() {
    byReplica = true;
    nearest = null;
    return this;
  }

  /**
   * Reads from the nearest replica, whatever its role: one on a node with the first of the labels
   * (KEY=VALUE, such as dc=syd), then with the second, and so on; without labels, and among equal
   * ones, the one that answers soonest.
   *
   * <p>With {@link #anyReplica} or {@link #maxStaleness} the read costs no round trip to the
   * leader; without, it is linearizable, and the replica asks the leader once, at the beginning.
   * When its node is lost, or refuses, the reader goes on at the next offset on the next nearest,
   * and stays there; the log never goes back for it.
   */
  public ReaderOptions nearest(String... labels) {
    byReplica = true;
    nearest = List.of(labels);
    return this;
  }

  /**
   * How often a server with nothing to send says so (5 s); after three times as long without a
   * frame another connection is opened.
   */
  public ReaderOptions heartbeat(Duration interval) {
    heartbeat = interval;
    return this;
  }

  /**
   * Reads the records that a filter selects. maxRecords then counts those, and maxBytes the bytes
   * that are sent.
   */
  public ReaderOptions filter(Consumer<Filter> conditions) {
    filter = new Filter();
    conditions.accept(filter);
    return this;
  }

  /** Reads of each record what a projection leaves. */
  public ReaderOptions projection(Consumer<Projection> parts) {
    projection = new Projection();
    parts.accept(projection);
    return this;
  }

  /**
   * Is given the offset up to which all has been looked at, and the end of the log, when a reader
   * with a filter or a projection has moved without a record: while records are scanned that is so
   * at least once a second.
   */
  public ReaderOptions onProgress(BiConsumer<Long, Long> report) {
    onProgress = report;
    return this;
  }

  void check() {
    int places = (offset == null ? 0 : 1) + (time == null ? 0 : 1) + (tail ? 1 : 0);
    if (places > 1) {
      throw StrandlineException.invalid(
          "a read must begin at only one of an offset, a time and the tail");
    }
    boolean stale = maxStaleness != null && maxStaleness.compareTo(LEAST_STALENESS) < 0;
    boolean negative = offset != null && offset < 0 || atLeast != null && atLeast < 0;
    if (negative || stale || heartbeat.compareTo(Duration.ZERO) <= 0) {
      throw StrandlineException.invalid(
          "a bound of the read is negative, or a staleness of less than 100 ms is asked for");
    }
  }

  boolean linearizable() {
    return !anyReplica && atLeast == null && maxStaleness == null;
  }

  /** Whether the server may end a read that follows. */
  boolean limited() {
    return maxRecords > 0 || maxBytes > 0 || untilOffset != null || untilTime != null;
  }

  /** Whether frames may leave records out. */
  boolean selects() {
    return filter != null || projection != null;
  }
}
