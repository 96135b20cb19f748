package dev.strandline.client;

import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/** What this program has for as long as it renews a lease: until it ends, or the client closes. */
abstract class Renewed {
  /** Errors of a renewal after which there is nothing to renew, whatever is renewed. */
  private static final Set<Reason> ENDS =
      Set.of(
          Reason.LOG_NOT_FOUND,
          Reason.LOG_REPLACED,
          Reason.PERMISSION_DENIED,
          Reason.UNAUTHENTICATED,
          Reason.CLOSED);

  final Calls calls;
  final Verbs verbs;
  private final Reason gone; // the error of a renewal once it has ended
  private final Bound life; // until it ends
  private final CompletableFuture<Optional<StrandlineException>> done = new CompletableFuture<>();
  private final AtomicBoolean renewing = new AtomicBoolean();
  private volatile Future<?> clock = CompletableFuture.completedFuture(null);

  Renewed(Calls calls, Reason gone) {
    this.calls = calls;
    this.gone = gone;
    verbs = new Verbs(calls);
    life = new Bound(calls.life, null);
  }

  /**
   * Is completed once it is known to have ended, and after release and close: with the error that
   * says why it has ended, or without one after release and close.
   */
  public CompletableFuture<Optional<StrandlineException>> done() {
    return done.copy();
  }

  boolean ended() {
    return done.isDone();
  }

  /** Fails once it has ended. */
  void check(String what) {
    if (ended()) {
      throw done.join()
          .map(e -> e.with(e.outcome()))
          .orElseGet(() -> StrandlineException.closed(what));
    }
  }

  /** Has it end with the client, and renewed after each third of the lease, if it has one. */
  void begin(Optional<Duration> lease, Consumer<Bound> renew) {
    calls.kept.add(this);
    lease.ifPresent(
        time ->
            clock =
                calls.threads.every(Bound.nanos(time.dividedBy(3)), () -> renewInThread(renew)));
    if (calls.peers.closed()) {
      end(StrandlineException.closed("client"));
    }
  }

  void end(StrandlineException error) {
    clock.cancel(false);
    calls.kept.remove(this);
    done.complete(Optional.ofNullable(error));
    life.end();
  }

  /** Ends it with what a renewal has found. */
  void lost(StrandlineException error) {
    end(error);
  }

  /** Renews once, unless that is under way. */
  void renewInThread(Consumer<Bound> renew) {
    if (!renewing.compareAndSet(false, true)) {
      return;
    }
    try {
      calls.threads.start(
          () -> {
            try {
              renew(renew);
            } finally {
              renewing.set(false);
            }
          });
    } catch (StrandlineException e) {
      renewing.set(false); // the client is closed
    }
  }

  private void renew(Consumer<Bound> renew) {
    try {
      renew.accept(life);
    } catch (StrandlineException e) {
      if (e.is(gone) || ENDS.contains(e.reason())) {
        lost(e);
      }
    }
  }
}
