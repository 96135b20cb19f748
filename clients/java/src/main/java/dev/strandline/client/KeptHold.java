package dev.strandline.client;

import dev.strandline.v1.SetHoldResponse;
import java.time.Duration;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A hold that this program has set and, if it has a lease, renews after each third of it until
 * release or close: a program that dies keeps nothing for longer than the lease. Any thread may use
 * it. Made by {@link Client#hold}.
 *
 * <p>The error of {@link #done} is HOLD_NOT_FOUND if the hold has expired, or was broken or
 * released by others; PERMISSION_DENIED or UNAUTHENTICATED if this program may not renew it any
 * more, so that it ends with its lease.
 */
public final class KeptHold extends Renewed implements AutoCloseable {
  private final String log;
  private final ReentrantLock turn = new ReentrantLock(); // one move at a time
  private volatile Hold hold;
  private volatile long logId;

  KeptHold(Calls calls, String log, Hold hold) {
    super(calls, Reason.HOLD_NOT_FOUND);
    this.log = log;
    this.hold = hold;
  }

  KeptHold open(Bound bound) {
    set(hold, bound);
    begin(
        hold.lease(),
        life -> verbs.renewHold(log, logId, hold.name(), hold.lease().orElseThrow(), life));
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
      check("hold");
      Hold before = hold;
      set(before.withOffset(offset).withPointer(pointer), new Bound(calls.life, timeout));
      if (ended()) {
        hold = before;
        check("hold"); // what was set just now would expire
      }
    } finally {
      turn.unlock();
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
}
