package dev.strandline.client;

import dev.strandline.v1.SetHoldResponse;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A hold that this program has set and, if it has a lease, renews after each third of it until
 * release or close: a program that dies keeps nothing for longer than the lease. Any thread may use
 * it. Made by {@link Client#hold}.
 */
public final class KeptHold implements AutoCloseable {
  /** Errors of a renewal after which there is nothing to renew. */
  private static final Set<Reason> ENDS =
      Set.of(
          Reason.HOLD_NOT_FOUND,
          Reason.LOG_NOT_FOUND,
          Reason.LOG_REPLACED,
          Reason.PERMISSION_DENIED,
          Reason.UNAUTHENTICATED,
          Reason.CLOSED);

  private final Calls calls;
  private final Verbs verbs;
  private final String log;
  private final Bound life; // until it ends
  private final CompletableFuture<Optional<StrandlineException>> done = new CompletableFuture<>();
  private final AtomicBoolean renewing = new AtomicBoolean();
  private final ReentrantLock turn = new ReentrantLock(); // one move at a time
  private volatile Hold hold;
  private volatile long logId;
  private volatile Future<?> clock = CompletableFuture.completedFuture(null);

  KeptHold(Calls calls, String log, Hold hold) {
    this.calls = calls;
    this.log = log;
    this.hold = hold;
    verbs = new Verbs(calls);
    life = new Bound(calls.life, null);
  }

  KeptHold open(Bound bound) {
    set(hold, bound);
    calls.kept.add(this);
    hold.lease()
        .ifPresent(
            lease -> {
              Duration third = lease.dividedBy(3);
              clock = calls.threads.every(Bound.nanos(third), () -> renewInThread(lease));
            });
    if (calls.peers.closed()) {
      end(StrandlineException.closed("client"));
    }
    return this;
  }

  private void set(Hold other, Bound bound) {
    SetHoldResponse answer = verbs.setHold(log, logId, other, bound);
    logId = answer.getLogId();
    hold = other.withOffset(answer.getOffset());
  }

  /** The hold as it was set or moved last. */
  public Hold hold() {
    return hold;
  }

  /**
   * Is completed once the hold is known to have ended, and after release and close. With
   * HOLD_NOT_FOUND it has expired, or was broken or released by others; with PERMISSION_DENIED or
   * UNAUTHENTICATED this program may not renew it any more, so that it ends with its lease. Without
   * an error it was released or closed.
   */
  public CompletableFuture<Optional<StrandlineException>> done() {
    return done.copy();
  }

  /**
   * Puts the hold at another offset with another pointer, in one step, and waits for that: what is
   * below may go from then on. Once it has ended this fails with the error of {@link #done}, or
   * with CLOSED after release and close. {@link Client#hold} sets such a hold anew, if the records
   * from its offset on are still there.
   */
  public void move(long offset, byte[] pointer) {
    move(offset, pointer, null);
  }

  /** The same for so long at most; null: as long as it takes. */
  public void move(long offset, byte[] pointer, Duration timeout) {
    Threads.mayWait();
    turn.lock();
    try {
      check();
      Hold before = hold;
      set(before.withOffset(offset).withPointer(pointer), new Bound(calls.life, timeout));
      if (done.isDone()) {
        hold = before;
        check(); // what was set just now would expire
      }
    } finally {
      turn.unlock();
    }
  }

  private void check() {
    if (done.isDone()) {
      throw done.join()
          .map(e -> e.with(e.outcome()))
          .orElseGet(() -> StrandlineException.closed("hold"));
    }
  }

  /** Ends the hold. If it fails, it may be called again; the lease is renewed no more. */
  public void release() {
    release(null);
  }

  /** The same for so long at most; null: as long as it takes. */
  public void release(Duration timeout) {
    close();
    try {
      verbs.releaseHold(log, logId, hold.name(), new Bound(calls.life, timeout));
    } catch (StrandlineException e) {
      if (!e.is(Reason.HOLD_NOT_FOUND)) {
        throw e;
      }
    }
  }

  /**
   * Ends the renewals and leaves the hold as it is: it ends with its lease, if it has one. A
   * renewal that is under way is given up.
   */
  @Override
  public void close() {
    end(null);
  }

  void end(StrandlineException error) {
    clock.cancel(false);
    calls.kept.remove(this);
    done.complete(Optional.ofNullable(error));
    life.end();
  }

  private void renewInThread(Duration lease) {
    if (!renewing.compareAndSet(false, true)) {
      return;
    }
    try {
      calls.threads.start(
          () -> {
            try {
              renew(lease);
            } finally {
              renewing.set(false);
            }
          });
    } catch (StrandlineException e) {
      renewing.set(false); // the client is closed
    }
  }

  private void renew(Duration lease) {
    try {
      verbs.renewHold(log, logId, hold.name(), lease, life);
    } catch (StrandlineException e) {
      if (ENDS.contains(e.reason())) {
        end(e);
      }
    }
  }
}
