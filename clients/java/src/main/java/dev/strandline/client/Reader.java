package dev.strandline.client;

import dev.strandline.v1.FailedRecord;
import dev.strandline.v1.GetInfoRequest;
import dev.strandline.v1.LogInfo;
import dev.strandline.v1.ReadConsistency;
import dev.strandline.v1.ReadFormat;
import dev.strandline.v1.ReadPosition;
import dev.strandline.v1.ReadRequest;
import dev.strandline.v1.ReadResponse;
import dev.strandline.v1.Record;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Reads one log. When the connection breaks, or the node can no longer serve it, it goes on at the
 * next offset on another. One thread at a time reads; any may close. Made by {@link Client#read}.
 *
 * <pre>{@code
 * try (Reader records = client.read("orders", o -> o.follow())) {
 *   for (LogRecord record : records) ...
 * }
 * }</pre>
 */
public final class Reader implements Iterable<LogRecord>, AutoCloseable {
  private static final long UNPLACED = -1;

  private final Calls calls;
  private final String log;
  private final ReaderOptions options;
  private final Route route;
  private final Bound life;
  private volatile long logId;
  private volatile long end;
  private volatile Duration age; // null: not known
  private volatile long next = UNPLACED; // known with the first frame
  private boolean placed; // a frame has come
  private long given; // records
  private long took; // about how many bytes
  private List<Record> records = List.of(); // of the newest frame, from at on
  private int at;
  private long looked = UNPLACED; // with a filter: where the next frame begins
  private volatile ServerStream<ReadRequest, ReadResponse> stream; // null: not open
  private Trouble trouble = new Trouble();
  private final Token.Shown shown = new Token.Shown();
  private volatile StrandlineException failure; // final
  private boolean ended;

  Reader(Calls calls, String log, ReaderOptions options) {
    options.check();
    this.calls = calls;
    this.log = log;
    this.options = options;
    life = new Bound(calls.life, null);
    logId = options.logId;
    if (options.offset != null) {
      next = options.offset;
    }
    if (options.byReplica) {
      route = new ToReplica(calls, log, options.nearest);
    } else if (options.linearizable()) {
      route = new ToLeader(calls, log, true);
    } else {
      route = new ToDialled(calls.peers);
    }
  }

  /**
   * The id of the log that is read; 0 before the first frame. An offset has a meaning only in the
   * log with its id: who keeps one keeps the other, too.
   */
  public long logId() {
    return logId;
  }

  /** The committed end of the log as far as servers have said: it never goes back. */
  public long end() {
    return end;
  }

  /**
   * How old the knowledge of {@link #end} was when the newest frame was made; from a leader, how
   * long ago a majority followed it. Empty before the first frame, and while the node read from has
   * not heard from a leader.
   */
  public Optional<Duration> age() {
    return Optional.ofNullable(age);
  }

  /** The offset of the next record; empty before the first has been found. */
  public OptionalLong offset() {
    return next == UNPLACED ? OptionalLong.empty() : OptionalLong.of(next);
  }

  /**
   * Finds the tail, where the read begins there; otherwise it asks nobody. Asking first gives the
   * tail a fixed place, which a broken connection cannot move. Reading does it, too.
   */
  public Reader open() {
    open(life);
    return this;
  }

  /** The same for so long at most. */
  public Reader open(Duration timeout) {
    open(new Bound(life, timeout));
    return this;
  }

  private void open(Bound bound) {
    if (!options.tail || next != UNPLACED) {
      return;
    }
    GetInfoRequest request =
        GetInfoRequest.newBuilder()
            .setLog(log)
            .setLogId(logId)
            .setAllowStale(options.anyReplica)
            .build();
    Route way = options.anyReplica ? route : new ToLeader(calls, log, false);
    try {
      LogInfo info =
          calls.by(way, bound, peer -> calls.on(peer, Methods.GET_INFO, request, bound)).getInfo();
      logId = info.getId();
      end = info.getEndOffset();
      next = info.getEndOffset();
    } catch (StrandlineException e) {
      throw e.with(Outcome.NOT_DONE);
    }
  }

  /**
   * Gives the next record, or null at the end of what was asked for; a read that follows waits
   * there.
   */
  public LogRecord read() {
    return read(life);
  }

  /** The same for so long at most: then the error is CANCELLED, and it may be called again. */
  public LogRecord read(Duration timeout) {
    return read(new Bound(life, timeout));
  }

  LogRecord read(Bound bound) {
    if (at == records.size() && !fill(bound)) {
      return null;
    }
    Record record = records.get(at++);
    given++;
    next = record.getOffset() + 1;
    return new LogRecord(record);
  }

  /** Gives what is left of a frame: faster than read, and otherwise the same. Empty at the end. */
  public List<LogRecord> readBatch() {
    return readBatch(life);
  }

  /** The same for so long at most. */
  public List<LogRecord> readBatch(Duration timeout) {
    return readBatch(new Bound(life, timeout));
  }

  private List<LogRecord> readBatch(Bound bound) {
    if (at == records.size() && !fill(bound)) {
      return List.of();
    }
    List<LogRecord> batch = new ArrayList<>(records.size() - at);
    while (at < records.size()) {
      batch.add(new LogRecord(records.get(at++)));
    }
    given += batch.size();
    next = batch.get(batch.size() - 1).offset() + 1;
    return batch;
  }

  /** Iterates over what is left to be read. */
  @Override
  public Iterator<LogRecord> iterator() {
    return new Iterator<>() {
      private LogRecord following;

      @Override
      public boolean hasNext() {
        if (following == null) {
          following = read();
        }
        return following != null;
      }

      @Override
      public LogRecord next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        LogRecord record = following;
        following = null;
        return record;
      }
    };
  }

  /** Ends the read, also of a thread that waits in it. */
  @Override
  public void close() {
    failure = StrandlineException.closed("reader");
    life.end();
    hangUp();
  }

  /** Gets records. False: there are no more. */
  private boolean fill(Bound bound) {
    open(bound);
    while (at == records.size()) {
      if (failure != null) {
        hangUp(); // one may have been opened while it was closed
        throw failure.with(failure.outcome());
      }
      if (next < looked) {
        next = looked;
        options.onProgress.accept(next, end);
      }
      if (ended || done()) {
        ended = true;
        hangUp();
        return false;
      }
      fetch(bound);
    }
    return true;
  }

  /** Whether a limit has been reached, of which a stream that is opened now would know nothing. */
  private boolean done() {
    return options.maxRecords > 0 && given >= options.maxRecords
        || options.maxBytes > 0 && took >= options.maxBytes
        || options.untilOffset != null && next >= options.untilOffset;
  }

  /** Receives one frame, or repairs the stream so that the next call can. */
  private void fetch(Bound bound) {
    boolean reached = stream != null;
    ReadResponse frame;
    try {
      if (!reached) {
        Peer peer = route.connect(bound);
        reached = true;
        stream = new ServerStream<>(peer, Methods.READ, request(), shown);
      }
      frame = receive(bound);
    } catch (StrandlineException e) {
      if (failure != null) {
        return; // closed meanwhile
      }
      if (bound.over()) {
        hangUp();
        throw calls.failure(StrandlineException.cancelled(Outcome.NOT_DONE));
      }
      recover(shown.failure(calls.failure(e)), reached, bound);
      return;
    }
    if (frame != null) {
      if (trouble.any()) {
        calls.trouble(log, null);
      }
      trouble = new Trouble();
      shown.progressed();
      take(frame);
    } else if (!options.follow || options.limited()) {
      ended = true;
    } else {
      recover(
          StrandlineException.unreachable(Outcome.NOT_DONE, "the server ended the stream"),
          true,
          bound);
    }
  }

  /**
   * A frame; null at the end of the stream. One that follows may not be silent for long; one that
   * does not relies on the keep-alive of the connection.
   */
  private ReadResponse receive(Bound bound) {
    ServerStream<ReadRequest, ReadResponse> from = stream;
    if (from == null) {
      throw StrandlineException.closed("reader");
    }
    Duration silence = options.follow ? options.heartbeat.multipliedBy(3) : null;
    Bound patient = new Bound(bound, silence);
    StrandlineException left =
        from.await(patient, Silence.ofReader(calls, route.tried(), route, placed));
    if (left != null) {
      throw left;
    }
    if (!from.await(patient)) {
      throw StrandlineException.unreachable(Outcome.NOT_DONE, "the server was silent");
    }
    return from.take();
  }

  /** Decides, after a stream could not be opened or broke, whether to try another, and pauses. */
  private void recover(StrandlineException why, boolean reached, Bound bound) {
    hangUp();
    boolean move = why.elsewhere() || onlyHere(why);
    if (move) {
      route.elsewhere(why);
    }
    int width = move ? route.width(why) : 1;
    boolean again = move || why.again();
    if (!again || !trouble.worthAnother(why, reached, placed, width, calls.retryTime)) {
      fail(why);
      return;
    }
    calls.trouble(log, why);
    if (!trouble.first()) {
      trouble.pauses.between(route.tried(), width, bound);
    }
  }

  /**
   * Whether another replica may do better than the one whose refusal is final there: one that lags
   * behind what this reader has seen, or whose copy is damaged.
   */
  private boolean onlyHere(StrandlineException why) {
    return switch (why.reason()) {
      case OFFSET_BEYOND_END -> next != UNPLACED && next <= end;
      case CORRUPT -> route.width(why) > 1;
      default -> false;
    };
  }

  private void fail(StrandlineException why) {
    failure = why;
    hangUp();
  }

  private void corrupt(String what) {
    fail(new StrandlineException(Reason.CORRUPT, what, Outcome.NOT_DONE));
  }

  /** Accepts a frame. */
  private void take(ReadResponse f) {
    if (logId == 0) {
      logId = f.getLogId();
    }
    if (f.getLogId() != logId) {
      String message =
          "log " + log + " with id " + logId + " was deleted; another one has its name";
      Map<String, String> facts = Map.of("log_id", Long.toUnsignedString(f.getLogId()));
      fail(new StrandlineException(Reason.LOG_REPLACED, message, Outcome.NOT_DONE, facts));
      return;
    }
    long first = f.getFirstOffset();
    if (next == UNPLACED) {
      next = first;
    }
    if (first > next || f.getRecordCount() != f.getRecordsCount()) {
      corrupt("received a frame that does not follow the one before");
      return;
    }
    if (options.selects() && !f.hasNextOffset()) {
      String message = "the server does not know filters and projections";
      fail(new StrandlineException(Reason.UNSUPPORTED, message, Outcome.NOT_DONE));
      return;
    }
    // Another replica may know less: what was committed once stays so.
    end = Math.max(end, f.getEndOffset());
    age = f.hasAge() ? Wire.duration(f.getAge()) : null;
    placed = true;
    takeRecords(f);
  }

  private void takeRecords(ReadResponse f) {
    long first = f.getFirstOffset();
    long until = f.hasNextOffset() ? f.getNextOffset() : first + f.getRecordCount();
    if (until < first) {
      corrupt("received a frame that ends before it begins");
      return;
    }
    if (f.hasNextOffset()) {
      looked = until;
    } else if (options.maxRecords > 0) {
      until = Math.min(until, next + options.maxRecords - given);
    }
    if (options.untilOffset != null) {
      until = Math.min(until, options.untilOffset);
    }
    List<Record> all = f.getRecordsList();
    boolean whole =
        all.isEmpty()
            || all.get(0).getOffset() >= next && all.get(all.size() - 1).getOffset() < until;
    if (!whole) {
      long limit = until;
      all = all.stream().filter(r -> next <= r.getOffset() && r.getOffset() < limit).toList();
    }
    records = all;
    at = 0;
    if (options.maxBytes > 0) {
      took += records.stream().mapToLong(Wire::sizeOf).sum();
    }
    report(f.getFailedList()); // last: what it calls may throw
  }

  /** Names the records that an expression failed on and that were left out. */
  private void report(List<FailedRecord> failed) {
    for (FailedRecord f : failed) {
      if (options.filter != null && f.getOffset() >= next) {
        options.filter.onFailed.accept(f.getOffset(), f.getMessage());
      }
    }
  }

  /** Asks for what has not been given yet. */
  private ReadRequest request() {
    ReadRequest.Builder q =
        ReadRequest.newBuilder()
            .setLog(log)
            .setLogId(logId)
            .setFollow(options.follow)
            .setFormat(ReadFormat.READ_FORMAT_RECORDS)
            .setHeartbeat(Wire.duration(options.heartbeat));
    if (next != UNPLACED) {
      q.setOffset(next);
    } else if (options.time != null) {
      q.setTime(Wire.timestamp(options.time));
    } else {
      q.setPosition(ReadPosition.READ_POSITION_START);
    }
    if (options.atLeast != null) {
      q.setAtLeastOffset(options.atLeast);
    } else if (options.maxStaleness != null) {
      q.setMaxAge(Wire.duration(options.maxStaleness));
    } else {
      q.setLevel(
          options.anyReplica
              ? ReadConsistency.READ_CONSISTENCY_ANY
              : ReadConsistency.READ_CONSISTENCY_LINEARIZABLE);
    }
    if (options.maxRecords > 0) {
      q.setMaxRecords(options.maxRecords - given);
    }
    if (options.maxBytes > 0) {
      q.setMaxBytes(options.maxBytes - took);
    }
    if (options.untilOffset != null) {
      q.setUntilOffset(options.untilOffset);
    }
    if (options.untilTime != null) {
      q.setUntilTime(Wire.timestamp(options.untilTime));
    }
    if (options.filter != null) {
      q.setFilter(options.filter.wire);
    }
    if (options.projection != null) {
      q.setProjection(options.projection.wire);
    }
    return q.build();
  }

  private void hangUp() {
    ServerStream<ReadRequest, ReadResponse> open = stream;
    stream = null;
    if (open != null) {
      open.close();
    }
  }
}
