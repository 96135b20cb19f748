package dev.strandline.client;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Bounds what waits: until a time, until its parent ends, until somebody ends it, or until the
 * waiting thread is interrupted.
 */
final class Bound {
  private static final long FOREVER = Long.MAX_VALUE / 4;

  private final Bound parent;
  private final long began = System.nanoTime();
  private final long time; // nanoseconds from then on
  private final Signal signal = new Signal();
  private volatile boolean ended;
  private boolean asks; // it is that of a call

  /** Either may be null. */
  Bound(Bound parent, Duration time) {
    this.parent = parent;
    this.time = time == null ? FOREVER : nanos(time);
  }

  /** The bound of a call, whose retry time begins now, also if it has to wait for a thread. */
  static Bound ofCall(Bound parent, Duration time) {
    Bound bound = new Bound(parent, time);
    bound.asks = true;
    return bound;
  }

  /** When the retry time of a call began that is bounded so, by the clock of nanoTime. */
  long asked() {
    return asks ? began : System.nanoTime();
  }

  static long nanos(Duration d) {
    return d.getSeconds() >= FOREVER / 1_000_000_000 ? FOREVER : Math.max(0, d.toNanos());
  }

  void end() {
    ended = true;
    signal.fire();
  }

  boolean over() {
    return left() <= 0 || Thread.currentThread().isInterrupted();
  }

  /** How many nanoseconds are left. */
  long left() {
    long left = ended ? 0 : time == FOREVER ? FOREVER : time - (System.nanoTime() - began);
    return parent == null ? left : Math.min(left, parent.left());
  }

  /** Waits for the end. */
  void await() {
    await(signal, () -> false);
  }

  /** Waits so many nanoseconds, or until the end. */
  void sleep(long nanos) {
    new Bound(this, Duration.ofNanos(nanos)).await();
  }

  /** Waits until something is so, of which fired says when to look; false: the end came first. */
  boolean await(Signal fired, BooleanSupplier so) {
    Threads.mayWait();
    Thread me = Thread.currentThread();
    fired.add(me);
    for (Bound b = this; b != null; b = b.parent) {
      b.signal.add(me);
    }
    try {
      while (!so.getAsBoolean()) {
        if (over()) {
          return so.getAsBoolean();
        }
        LockSupport.parkNanos(this, left());
      }
      return true;
    } finally {
      fired.remove(me);
      for (Bound b = this; b != null; b = b.parent) {
        b.signal.remove(me);
      }
    }
  }
}
