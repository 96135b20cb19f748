package dev.strandline.client;

import java.util.concurrent.ThreadLocalRandom;

/**
 * Lie between tries. The longest that one can be doubles, and later is a tenth of the time since
 * the first; each is between half and all of that, so that clients which lost the same node do not
 * come back together. So a client that has lost its leader soon finds the next one, and a thousand
 * that have waited for long do not take the processors that nodes need to find each other.
 */
final class Pauses {
  private static final long FIRST = 10_000_000; // nanoseconds
  private static final long LAST = 100_000_000;
  private static final long SLOWEST = 1_000_000_000;

  private long delay = FIRST;
  private boolean begun;
  private long began; // the first pause
  private int tries; // since the last pause, each at another node

  /** The longest that the next pause can be, in nanoseconds. */
  long next() {
    return delay;
  }

  /** Pauses only when so many nodes have been tried since the last pause. */
  void between(Peer tried, int width, Bound bound) {
    if (++tries >= width) {
      pause(tried, bound);
    }
  }

  /** Pauses, or less if the connection to a node that could not be reached is there before. */
  void pause(Peer tried, Bound bound) {
    long time = draw(System.nanoTime());
    tries = 0;
    if (tried != null && tried.failing()) {
      tried.awaitRecovery(time, bound);
    } else {
      bound.sleep(time);
    }
  }

  /** How long a pause that begins now is, in nanoseconds. */
  long draw(long now) {
    if (!begun) {
      begun = true;
      began = now;
    }
    long time = delay / 2 + ThreadLocalRandom.current().nextLong(delay / 2);
    delay = Math.min(Math.min(2 * delay, Math.max(LAST, (now - began) / 10)), SLOWEST);
    return time;
  }
}
