package dev.strandline.client;

import dev.strandline.v1.Record;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntToLongFunction;

/**
 * Requests from the one that is forming to those in flight, and the session that numbers them. It
 * is the lock of its producer: who looks at more than one thing holds it. Futures are completed by
 * deliver, without it.
 */
final class Backlog {
  final ProducerOptions options;
  final Window window;

  /** Fired when there is something to look at for who sends. */
  Runnable onChange = () -> {};

  Session session;
  long next; // sequence of the next record of a batch to be closed
  long logId;
  long lastSign = System.nanoTime(); // when the log last answered
  StrandlineException ended; // why nothing is accepted any more

  private Request forming; // takes records
  private final Deque<Request> queue = new ArrayDeque<>(); // full, not sent yet; oldest first
  private final Deque<Room> waiting = new ArrayDeque<>(); // first come, first served
  private final Deque<Runnable> outcomes = new ArrayDeque<>(); // to be delivered
  private final long mostRequestBytes;
  private long buffered;

  // What has been done.
  private final Histogram requestRecords = new Histogram();
  private final Histogram requestBytes = new Histogram();
  private final Histogram latencyMicros = new Histogram();
  private long failed; // records
  private long resent; // requests
  private long streams;

  /** Of the request that was accepted last. */
  private CompletableFuture<Void> settled = CompletableFuture.completedFuture(null);

  /** Where a record is. */
  record Place(Request request, int index) {}

  /** Somebody who waits for room. */
  private static final class Room {
    final Signal signal = new Signal();
    final long size;
    final Runnable accept;
    StrandlineException refused;
    volatile boolean ended;

    Room(long size, Runnable accept) {
      this.size = size;
      this.accept = accept;
    }

    void end() {
      ended = true;
      signal.fire();
    }
  }

  Backlog(ProducerOptions options) {
    this.options = options;
    window = new Window(options.maxInFlight, options.maxInFlightBytes);
    mostRequestBytes =
        Math.min(Math.min(options.maxRequestBytes, options.bufferBytes), NewRecord.MAX_BYTES);
  }

  /** Puts a record into a request, once there is room. */
  Place add(Record record, CompletableFuture<Long> future, Bound bound) {
    long size = Wire.sizeOf(record);
    checkSize(size, 1);
    Place[] place = new Place[1];
    whenRoom(size, bound, () -> place[0] = put(record, future, size));
    return place[0];
  }

  private Place put(Record record, CompletableFuture<Long> future, long size) {
    if (forming != null && forming.size + size > mostRequestBytes) {
      enqueueForming();
    }
    if (forming == null) {
      forming = new Request();
      settled = forming.settled;
    }
    Place place = new Place(forming, forming.count());
    forming.add(record, future, size);
    accepted(size);
    return place;
  }

  /** Puts a request of its own behind what was accepted before, once there is room. */
  Place add(Request r, Bound bound) {
    checkSize(r.size, r.count());
    whenRoom(
        r.size,
        bound,
        () -> {
          enqueueForming();
          queue.add(r);
          settled = r.settled;
          accepted(r.size);
        });
    return new Place(r, 0);
  }

  private static void checkSize(long size, int records) {
    long payload = size - (long) Wire.OVERHEAD * records;
    if (payload > NewRecord.MAX_BYTES) {
      throw StrandlineException.tooLarge(payload, NewRecord.MAX_BYTES);
    }
  }

  private void enqueueForming() {
    if (forming != null) {
      queue.add(forming);
      forming = null;
    }
  }

  private void accepted(long size) {
    buffered += size;
    onChange.run();
  }

  private boolean hasRoom(long size) {
    return buffered == 0 || buffered + size <= options.bufferBytes;
  }

  /**
   * Accepts something once there is room; without a bound, now or never. The thread that completes
   * futures cannot wait for room: what it appends is accepted in any case.
   */
  private void whenRoom(long size, Bound bound, Runnable accept) {
    Room room;
    synchronized (this) {
      if (ended != null) {
        throw ended.with(ended.outcome());
      }
      if (bound != null && Threads.inLoop() || waiting.isEmpty() && hasRoom(size)) {
        accept.run();
        return;
      }
      if (bound == null) {
        throw StrandlineException.again(
            Reason.BUSY,
            options.bufferBytes + " bytes of records have no answer yet",
            Outcome.NOT_DONE,
            Map.of());
      }
      room = new Room(size, accept);
      waiting.add(room);
    }
    if (!bound.await(room.signal, () -> room.ended)) {
      synchronized (this) {
        if (!room.ended) {
          waiting.remove(room);
          admit();
          throw StrandlineException.cancelled(Outcome.NOT_DONE);
        }
      }
    }
    if (room.refused != null) {
      throw room.refused;
    }
  }

  private void admit() {
    for (Room first = waiting.peek(); first != null; first = waiting.peek()) {
      if (ended == null && !hasRoom(first.size)) {
        return;
      }
      waiting.remove();
      if (ended == null) {
        first.accept.run();
      } else {
        first.refused = ended.with(ended.outcome());
      }
      first.end();
    }
  }

  private void release(Request r) {
    buffered -= r.size;
    admit();
  }

  /** The oldest request that is not in the window; null: there is none. */
  synchronized Request candidate() {
    return queue.isEmpty() ? forming : queue.peek();
  }

  /** Whether a request may get more records. */
  synchronized boolean forms(Request r) {
    return r == forming;
  }

  /**
   * Returns a future that is completed when all that was accepted has been settled and delivered;
   * none of it lingers.
   */
  synchronized CompletableFuture<Void> flush() {
    if (forming != null) {
      forming.urgent = true;
      onChange.run();
    }
    return settled.copy();
  }

  /** The request that has waited longest for its answer; null: there is none. */
  synchronized Request oldest() {
    Request r = window.oldestWaiting();
    return r != null ? r : candidate();
  }

  /** Whether the oldest request has waited too long for its answer. */
  synchronized boolean overdue() {
    Request oldest = oldest();
    return oldest != null
        && !options.recordTimeout.isZero()
        && System.nanoTime() - oldest.accepted > Bound.nanos(options.recordTimeout);
  }

  /** Moves the candidate into the window and numbers its records. */
  synchronized void closeBatch() {
    Request r = queue.poll();
    if (r == null) {
      r = forming;
      forming = null;
    }
    r.state = Request.State.IN_FLIGHT;
    if (session != null) {
      r.session = session.id();
      r.epoch = session.epoch();
      r.first = next;
      next += r.count();
    }
    window.push(r);
  }

  /** Takes the oldest request in flight out of the window. */
  synchronized void leave() {
    Request r = window.pop();
    lastSign = System.nanoTime();
    if (r.waits()) {
      release(r);
    }
  }

  /** Counts a request that is put on a stream. */
  synchronized void sending(Request r) {
    if (r.sent == 0) {
      r.sent = System.nanoTime();
    } else {
      resent++;
    }
  }

  /** Counts a stream that was opened. */
  synchronized void streaming() {
    streams++;
  }

  /** What has been done and is under way. */
  synchronized Stats stats() {
    List<Request> flying = window.waiting();
    return new Stats(
        flying.size(),
        flying.stream().mapToLong(Request::count).sum(),
        flying.stream().mapToLong(r -> r.size).sum(),
        buffered,
        failed,
        resent,
        streams,
        new Histogram(requestRecords),
        new Histogram(requestBytes),
        new Histogram(latencyMicros));
  }

  /** Gives the records of a request their offsets. */
  synchronized void settle(Request r, IntToLongFunction offsets) {
    requestRecords.record(r.count());
    requestBytes.record(r.size);
    latencyMicros.record(Math.max(0, System.nanoTime() - r.sent) / 1000);
    outcomes.add(
        () -> {
          for (int i = 0; i < r.count(); i++) {
            r.futures.get(i).complete(offsets.applyAsLong(i));
          }
          r.settled.complete(null);
        });
  }

  /** Gives the records of a request an error. One in doubt gets its place for Admin.resolve. */
  synchronized void settleError(Request r, StrandlineException error) {
    failed += r.count();
    List<StrandlineException> errors = new ArrayList<>(r.count());
    for (int i = 0; i < r.count(); i++) {
      errors.add(inDoubt(new Place(r, i), error));
    }
    outcomes.add(
        () -> {
          for (int i = 0; i < r.count(); i++) {
            r.futures.get(i).completeExceptionally(errors.get(i));
          }
          r.settled.complete(null);
        });
  }

  /**
   * Completes the futures of what has been settled. Not under the lock: anything may be waiting.
   */
  void deliver() {
    for (; ; ) {
      Runnable outcome;
      synchronized (this) {
        outcome = outcomes.poll();
      }
      if (outcome == null) {
        return;
      }
      outcome.run();
    }
  }

  /** An error of one record, with its place if it is in doubt. */
  synchronized StrandlineException inDoubt(Place place, StrandlineException error) {
    if (error.outcome() != Outcome.MAYBE_DONE) {
      return error;
    }
    Request r = place.request();
    Position p =
        r.state == Request.State.ACCEPTED
            ? position(r)
            : new Position(logId, r.session, r.epoch, r.first);
    return p.session() == 0
        ? error
        : error.at(new Position(p.logId(), p.session(), p.epoch(), p.next() + place.index()));
  }

  /**
   * Where the next record stands that will be accepted, or the first one of a request that has not
   * been closed.
   */
  synchronized Position position(Request before) {
    long at = next;
    for (Request r : openRequests()) {
      if (r == before) {
        break;
      }
      at += r.count();
    }
    return session == null
        ? new Position(logId, 0, 0, at)
        : new Position(logId, session.id(), session.epoch(), at);
  }

  private List<Request> openRequests() {
    List<Request> all = new ArrayList<>(queue);
    if (forming != null) {
      all.add(forming);
    }
    return all;
  }

  /**
   * Keeps what was accepted behind an interruption that leaves nothing that was sent without a
   * result: what was refused is in the log by an earlier sending, or it was the session that ended.
   * It goes to the next epoch, which a producer that ends on failures never begins. Otherwise it
   * fails.
   */
  synchronized void continueOrFail(Interruption i) {
    boolean resolved = i.refused() != null || i.error().endsSession();
    if (window.first() != null || !resolved || options.endOnFailure) {
      fail(i);
    } else {
      beginEpoch(i.error().epoch());
    }
  }

  /**
   * Settles everything without a result: the request that the interruption is about, or else the
   * oldest, with its error, and the others as behind it. The epoch ends, so that later records are
   * not taken for those that failed.
   */
  synchronized void fail(Interruption i) {
    StrandlineException error = i.error();
    List<Request> failed = window.fail();
    failed.addAll(openRequests());
    queue.clear();
    forming = null;
    if (options.endOnFailure || error.is(Reason.LOG_REPLACED) || error.is(Reason.CLOSED)) {
      stop(error);
    }
    for (Request r : failed) {
      boolean about = i.refused() == null ? r == failed.get(0) : r == i.refused();
      settleError(r, about ? error.with(r.outcome) : StrandlineException.behind(error, r.outcome));
    }
    // Their places are taken: only now does what comes later begin in the next epoch.
    beginEpoch(error.epoch());
    failed.forEach(this::release);
  }

  private void beginEpoch(int above) {
    if (session != null) {
      session = session.in(Math.max(session.epoch(), above) + 1);
      next = 0;
    }
  }

  /** Lets the producer accept nothing more. */
  synchronized void stop(StrandlineException error) {
    if (ended == null) {
      ended = error.with(Outcome.NOT_DONE);
    }
    admit();
  }
}
