package dev.strandline.client;

import dev.strandline.v1.Record;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.function.Consumer;

/**
 * Appends records to one log: pipelined, in the order they were given, each at most once. Any
 * thread may use it.
 *
 * <p>Records gather in a request while earlier ones are in flight. When a connection breaks or
 * another node becomes the leader, the requests without an answer are sent again, in order, with
 * the same sequences, so that the log recognises what it has already.
 *
 * <p>When the log refuses a request for good, that request fails and so does every record that was
 * accepted after it and before the failure (BEHIND_FAILED): none slips ahead. Records accepted
 * later go on in the session's next epoch. When the session itself is gone, everything without an
 * answer is settled by asking the log; if that leaves a record in doubt, the producer ends.
 *
 * <p>Futures fail with a {@link StrandlineException}. They are completed by the thread that serves
 * all connections of the client: what is chained to them must be short and must not wait, or be
 * chained by an Async method of CompletableFuture.
 *
 * <p>Made by {@link Client#producer}.
 */
public final class Producer implements AutoCloseable {
  private final Calls calls;
  private final Backlog backlog;
  private final ProducerSession session;
  private final Rounds rounds;
  private final Signal stopped = new Signal();
  private volatile boolean running;

  Producer(Calls calls, String log, ProducerOptions options) {
    options.check();
    this.calls = calls;
    backlog = new Backlog(options);
    session = new ProducerSession(calls, log, backlog);
    rounds = new Rounds(calls, log, backlog, session);
  }

  Producer open() {
    session.open(new Bound(calls.life, backlog.options.openTimeout));
    running = true;
    calls.threads.start(
        () -> {
          try {
            rounds.run();
          } finally {
            running = false;
            stopped.fire();
          }
        });
    return this;
  }

  /** Appends a record of a value: see {@link #append(NewRecord)}. */
  public CompletableFuture<Long> append(byte[] value) {
    return append(new NewRecord(value));
  }

  /** Appends a record of a text: see {@link #append(NewRecord)}. */
  public CompletableFuture<Long> append(String value) {
    return append(new NewRecord(value));
  }

  /**
   * Appends a record. The future is of its offset, and is completed when the record is durable.
   * Records are accepted in the order of the calls; a call waits while as much as {@link
   * ProducerOptions#bufferBytes} has no answers, unless it is made where a future is completed.
   */
  public CompletableFuture<Long> append(NewRecord record) {
    CompletableFuture<Long> future = new CompletableFuture<>();
    accept(record.toWire(), future, calls.life);
    return future;
  }

  /**
   * The same with a bound on the waiting, after which the future fails with CANCELLED. The record
   * is on its way all the same, unless the error says NOT_DONE.
   */
  public CompletableFuture<Long> append(NewRecord record, Duration timeout) {
    Bound bound = new Bound(calls.life, timeout);
    CompletableFuture<Long> future = new CompletableFuture<>();
    Backlog.Place place = accept(record.toWire(), future, bound);
    return place == null ? future : bounded(future, place, bound);
  }

  /**
   * Appends a record and never waits: where {@link ProducerOptions#bufferBytes} without answers
   * leave no room the future fails with BUSY, and nothing was done.
   */
  public CompletableFuture<Long> tryAppend(NewRecord record) {
    CompletableFuture<Long> future = new CompletableFuture<>();
    accept(record.toWire(), future, null);
    return future;
  }

  /** Null: the future has failed. */
  private Backlog.Place accept(Record record, CompletableFuture<Long> future, Bound bound) {
    try {
      return backlog.add(record, future, bound);
    } catch (StrandlineException e) {
      future.completeExceptionally(e);
      return null;
    }
  }

  /** A future that fails when the bound ends, and leaves the other be. */
  private <T> CompletableFuture<T> bounded(
      CompletableFuture<T> future, Backlog.Place place, Bound bound) {
    CompletableFuture<T> result = new CompletableFuture<>();
    Future<?> late =
        calls.threads.later(
            () ->
                result.completeExceptionally(
                    backlog.inDoubt(place, StrandlineException.cancelled(Outcome.MAYBE_DONE))),
            bound.left());
    future.whenComplete(
        (value, error) -> {
          late.cancel(false);
          if (error == null) {
            result.complete(value);
          } else {
            result.completeExceptionally(error);
          }
        });
    return result;
  }

  /** Appends records in one request: see {@link #appendBatch(List, Consumer)}. */
  public CompletableFuture<List<Long>> appendBatch(List<NewRecord> records) {
    return appendBatch(records, o -> {});
  }

  /**
   * Appends records in one request, on the conditions that configure sets. The future is of their
   * offsets, which follow one another unless a part had become durable before the request was sent
   * again.
   */
  public CompletableFuture<List<Long>> appendBatch(
      List<NewRecord> records, Consumer<BatchOptions> configure) {
    if (records.isEmpty()) {
      throw StrandlineException.invalid("the batch has no records");
    }
    BatchOptions options = new BatchOptions();
    configure.accept(options);
    if (options.expectedEnd.orElse(0) < 0) {
      throw StrandlineException.invalid("the expected end of an append is negative");
    }
    Request r = new Request();
    r.expectedEnd = options.expectedEnd;
    r.atomic = options.atomic;
    r.check = options.check;
    for (NewRecord record : records) {
      Record wire = record.toWire();
      r.add(wire, new CompletableFuture<>(), Wire.sizeOf(wire));
    }
    Bound bound = new Bound(calls.life, options.timeout);
    Backlog.Place place;
    try {
      place = backlog.add(r, bound);
    } catch (StrandlineException e) {
      return CompletableFuture.failedFuture(e);
    }
    CompletableFuture<List<Long>> all =
        CompletableFuture.allOf(r.futures.toArray(new CompletableFuture<?>[0]))
            .thenApply(done -> r.futures.stream().map(CompletableFuture::join).toList());
    return options.timeout == null ? all : bounded(all, place, bound);
  }

  /** Is completed when every record accepted before has its answer, good or bad; none lingers. */
  public CompletableFuture<Void> flush() {
    return backlog.flush();
  }

  /** Accepts nothing more, waits for the answers that are missing and closes the session. */
  @Override
  public void close() {
    close(null);
  }

  /**
   * The same for so long at most; null: without a bound. When the time is up, what is unanswered
   * fails, and the session stays until its lease runs out.
   */
  public void close(Duration timeout) {
    Threads.mayWait();
    Bound bound = new Bound(calls.life, timeout);
    backlog.stop(StrandlineException.closed("producer"));
    CompletableFuture<Void> flushed = flush();
    Signal signal = new Signal();
    flushed.whenComplete((done, error) -> signal.fire());
    boolean inTime = bound.await(signal, flushed::isDone);
    rounds.end();
    new Bound(null, null).await(stopped, () -> !running);
    if (!inTime) {
      throw StrandlineException.cancelled(Outcome.MAYBE_DONE);
    }
    session.close(bound);
  }

  /**
   * Where the producer stands in its session. It moves with every record that is accepted; and to 0
   * in another epoch or session when one fails, unless {@link ProducerOptions#endOnFailure} is set.
   */
  public Position position() {
    return backlog.position(null);
  }

  /** What the producer has done and is doing, as of now. */
  public Stats stats() {
    return backlog.stats();
  }

  /** The session now; empty without one. */
  public Optional<Session> session() {
    synchronized (backlog) {
      return Optional.ofNullable(backlog.session);
    }
  }
}
