package dev.strandline.client;

import java.time.Duration;

/** What a reader has had since its last frame. */
final class Trouble {
  /**
   * How often in a row servers that can be reached may break a stream before its first frame,
   * without saying that another try may help.
   */
  private static final int MAX_BROKEN = 10;

  final Pauses pauses = new Pauses();
  private final long began = System.nanoTime();
  private int count;
  private int broken;

  /**
   * Whether to open another stream: on each of width nodes, and then again. A reader that has had a
   * frame waits for its servers for ever; one that has not, or whose bound no replica keeps, for
   * the retry time.
   */
  boolean worthAnother(
      StrandlineException failure, boolean reached, boolean placed, int width, Duration retry) {
    count++;
    if (reached && !(failure.retryable() && !failure.is(Reason.UNREACHABLE))) {
      broken++;
    }
    boolean patient = placed && !failure.is(Reason.STALE);
    boolean inTime = System.nanoTime() - began < failure.within(Bound.nanos(retry));
    return broken <= MAX_BROKEN && (patient || count < width || inTime);
  }

  /** Whether there has been any. */
  boolean any() {
    return count > 0;
  }

  /** Whether this is the first. */
  boolean first() {
    return count == 1;
  }
}
