package dev.strandline.client;

import java.util.concurrent.ThreadLocalRandom;

/**
 * Lie between tries. The longest that one can be doubles, and each is between half and all of that,
 * so that clients which lost the same node do not come back together.
 */
final class Pauses {
  private static final long FIRST = 10_000_000; // nanoseconds
  private static final long LAST = 100_000_000;

  private long delay = FIRST;
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
    long time = delay / 2 + ThreadLocalRandom.current().nextLong(delay / 2);
    delay = Math.min(2 * delay, LAST);
    tries = 0;
    if (tried != null && tried.failing()) {
      tried.awaitRecovery(time, bound);
    } else {
      bound.sleep(time);
    }
  }
}
