package dev.strandline.client;

import dev.strandline.v1.WatchInfoRequest;
import dev.strandline.v1.WatchWriterRequest;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Creates, describes and trims logs, and keeps sessions and writer terms for those who do without a
 * producer. Its calls go on trying for the client's retry time while no node can answer, and end
 * when their future is cancelled. A future fails with a {@link StrandlineException}.
 */
public final class Admin {
  private final Calls calls;
  private final Verbs verbs;
  private final Duration timeout;

  Admin(Calls calls, Duration timeout) {
    this.calls = calls;
    this.timeout = timeout;
    verbs = new Verbs(calls);
  }

  /** The same with a bound on each call; the error says what is known of the effect by then. */
  public Admin within(Duration time) {
    return new Admin(calls, time);
  }

  /** Has a thread make a call, which ends with the future. */
  private <T> CompletableFuture<T> call(Function<Bound, T> verb) {
    CompletableFuture<T> result = new CompletableFuture<>();
    Bound bound = Bound.ofCall(calls.life, timeout);
    AtomicBoolean begun = new AtomicBoolean();
    Future<?> late =
        timeout == null ? null : calls.threads.later(() -> late(result, begun), bound.left());
    result.whenComplete(
        (value, error) -> {
          bound.end();
          if (late != null) {
            late.cancel(false);
          }
        });
    try {
      calls.threads.call(
          () -> {
            if (!begun.compareAndSet(false, true)) {
              return;
            }
            try {
              result.complete(verb.apply(bound));
            } catch (Throwable e) {
              result.completeExceptionally(e);
            }
          });
    } catch (StrandlineException e) {
      result.completeExceptionally(e);
    }
    return result;
  }

  /** Ends a call whose time is up before a thread had time for it: nothing was done. */
  private static <T> void late(CompletableFuture<T> result, AtomicBoolean begun) {
    if (begun.compareAndSet(false, true)) {
      result.completeExceptionally(StrandlineException.cancelled(Outcome.NOT_DONE));
    }
  }

  /** The same for a verb without a result. */
  private CompletableFuture<Void> run(Consumer<Bound> verb) {
    return call(
        bound -> {
          verb.accept(bound);
          return null;
        });
  }

  /** Creates a log that is configured as nothing is said. */
  public CompletableFuture<LogInfo> createLog(String name) {
    return createLog(name, LogConfig.DEFAULT);
  }

  /** Creates a log. Where an answer was lost, the log that an earlier try created is returned. */
  public CompletableFuture<LogInfo> createLog(String name, LogConfig config) {
    return call(bound -> verbs.createLog(name, config, bound));
  }

  /** Lists all logs by name. */
  public CompletableFuture<List<LogInfo>> listLogs() {
    return call(bound -> verbs.listLogs(false, bound));
  }

  /** Lists all logs by name, with the system's own. */
  public CompletableFuture<List<LogInfo>> listAllLogs() {
    return call(bound -> verbs.listLogs(true, bound));
  }

  /**
   * Gives a log a whole new configuration. To change a part of it, replace that in what {@link
   * #info} gives: somebody else's change in between is PRECONDITION then.
   */
  public CompletableFuture<LogInfo> configureLog(String name, LogConfig config) {
    return call(bound -> verbs.configureLog(name, config, bound));
  }

  /**
   * Removes a log with all its records. It never removes another log that got the name while an
   * answer was lost.
   */
  public CompletableFuture<Void> deleteLog(String name) {
    return run(bound -> verbs.deleteLog(name, bound));
  }

  /** The digest of a log as of its end. PRECONDITION: there was none yet. */
  public CompletableFuture<Digest> digest(String log) {
    return call(bound -> verbs.digest(log, OptionalLong.empty(), false, bound));
  }

  /** The same as of an offset from its start to its end. */
  public CompletableFuture<Digest> digest(String log, long at) {
    return call(bound -> verbs.digest(log, OptionalLong.of(at), false, bound));
  }

  /**
   * The same of what the replica of the first address that answers knows to be committed, which may
   * be less than others do; it needs no leader. Empty: as of the end that it knows.
   */
  public CompletableFuture<Digest> knownDigest(String log, OptionalLong at) {
    return call(bound -> verbs.digest(log, at, true, bound));
  }

  /**
   * Gives a record once it is proved to be in the log that has the hash of a trusted digest as of
   * its offset: {@link Digest#trusted}. UNPROVEN: what the server sent does not prove it.
   * UNSUPPORTED: it is proved, but compressed.
   */
  public CompletableFuture<LogRecord> prove(String log, long offset, Digest trusted) {
    return call(bound -> verbs.prove(log, offset, trusted, false, bound));
  }

  /** The same by the replica that {@link #knownDigest} asks. */
  public CompletableFuture<LogRecord> proveKnown(String log, long offset, Digest trusted) {
    return call(bound -> verbs.prove(log, offset, trusted, true, bound));
  }

  /** Describes a log. */
  public CompletableFuture<LogInfo> info(String log) {
    return call(bound -> verbs.info(log, bound));
  }

  /**
   * Publishes the log's description now and after changes, at most once per interval. A broken
   * connection, or a node that stands still, ends it with an error.
   */
  public Flow.Publisher<LogInfo> watchInfo(String log, Duration interval) {
    WatchInfoRequest request =
        WatchInfoRequest.newBuilder().setLog(log).setMinInterval(Wire.duration(interval)).build();
    return new Publication<>(
        calls,
        bound ->
            new StateStream<>(
                calls,
                log,
                Methods.WATCH_INFO,
                request,
                answer -> Wire.info(answer.getInfo()),
                false,
                bound));
  }

  /** Removes every record below an offset, and returns where the log starts and ends. */
  public CompletableFuture<Extent> trim(String log, long before) {
    return call(bound -> verbs.trim(log, before, false, bound));
  }

  /** The same, where the offset may lie beyond the end: the log continues there. */
  public CompletableFuture<Extent> fastForward(String log, long before) {
    return call(bound -> verbs.trim(log, before, true, bound));
  }

  /**
   * Sets a hold, or moves the one of its name with all that belongs to it, and returns where it
   * begins and where the log ends. OFFSET_TRIMMED: records from the offset on are gone; once it has
   * succeeded, all are there.
   */
  public CompletableFuture<Extent> setHold(String log, Hold hold) {
    return call(bound -> verbs.setHold(log, hold, bound));
  }

  /**
   * Renews a hold's lease, as {@link #setHold} does. HOLD_NOT_FOUND: it has expired, or was
   * released or broken.
   */
  public CompletableFuture<Void> keepHold(String log, String name) {
    return run(bound -> verbs.keepHold(log, name, bound));
  }

  /** Ends a hold, whoever has set it. */
  public CompletableFuture<Void> releaseHold(String log, String name) {
    return run(bound -> verbs.releaseHold(log, 0, name, bound));
  }

  /**
   * Raises the log's writer term. Appends with an older term are refused with FENCED from then on.
   */
  public CompletableFuture<WriterTerm> acquireWriter(String log) {
    return call(bound -> verbs.acquireWriter(log, bound));
  }

  /**
   * Acquires the writer lease of a log: raises the log's writer term, as {@link #acquireWriter}
   * does, if no other program has the lease. Otherwise it waits in line for so long, at most a
   * minute, and returns a grant without a term if that did not suffice. The lease lasts as long as
   * {@link #keepWriter} is called, or records are appended with the term. {@link
   * Client#leaseWriter} does that.
   */
  public CompletableFuture<WriterGrant> leaseWriter(String log, WriterClaim claim, Duration wait) {
    return call(bound -> Wire.grant(verbs.leaseWriter(log, 0, claim, wait, bound)));
  }

  /**
   * Renews the writer lease that was granted with a term, as appends with the term do. FENCED: it
   * has ended.
   */
  public CompletableFuture<Void> keepWriter(String log, long term) {
    return run(bound -> verbs.keepWriter(log, term, bound));
  }

  /**
   * Ends the writer lease that was granted with a term: the first program in line gets it at once.
   * FENCED: it had ended.
   */
  public CompletableFuture<Void> releaseWriter(String log, long term) {
    return run(bound -> verbs.releaseWriter(log, 0, term, "", bound));
  }

  /**
   * The same in favor of the program in line that has a name. PRECONDITION: none has it, and the
   * lease stays.
   */
  public CompletableFuture<Void> handWriterOver(String log, long term, String to) {
    return run(bound -> verbs.releaseWriter(log, 0, term, to, bound));
  }

  /**
   * Publishes which program has the writer lease of a log: now, after each change, and every
   * interval of at least 100 ms. It continues when another node leads the log. Each state is one
   * that the log has had; a program may have had the lease between two of them.
   */
  public Flow.Publisher<WriterState> watchWriter(String log, Duration interval) {
    WatchWriterRequest request =
        WatchWriterRequest.newBuilder().setLog(log).setInterval(Wire.duration(interval)).build();
    return new Publication<>(
        calls,
        bound ->
            new StateStream<>(
                calls,
                log,
                Methods.WATCH_WRITER,
                request,
                answer -> Wire.writer(answer.getState()),
                true,
                bound));
  }

  /** Begins a session at epoch 0, sequence 0. A lease of null is one of 60 s. */
  public CompletableFuture<Session> openSession(String log, Duration lease) {
    return call(bound -> verbs.openSession(log, 0, lease, bound));
  }

  /** Renews the lease of a session. Every append does so too. */
  public CompletableFuture<Void> keepSession(String log, Session session) {
    return run(bound -> verbs.keepSession(log, session.id(), session.logId(), bound));
  }

  /** Ends a session: its appends are refused from then on. */
  public CompletableFuture<Void> closeSession(String log, Session session) {
    return run(bound -> verbs.closeSession(log, session.id(), session.logId(), bound));
  }

  /** Returns what became of a record: see {@link StrandlineException#position}. */
  public CompletableFuture<Resolution> resolve(String log, Position at) {
    return call(bound -> verbs.resolve(log, at, false, bound));
  }

  /**
   * The same for good: a record that is not in the log never will be. The session's epoch ends
   * then.
   */
  public CompletableFuture<Resolution> resolveFinally(String log, Position at) {
    return call(bound -> verbs.resolve(log, at, true, bound));
  }

  /**
   * Ends the epoch of a position for good. The answer's next is how many records of it are in the
   * log, and no other ever will be: so a program that was restarted finds out where to go on.
   */
  public CompletableFuture<Resolution> endEpoch(String log, Position at) {
    Position last = new Position(at.logId(), at.session(), at.epoch(), Long.MAX_VALUE);
    return resolveFinally(log, last);
  }
}
