package dev.strandline.client;

import java.time.Duration;
import java.util.OptionalLong;

/** Conditions of a batch: {@code producer.appendBatch(records, o -> o.expectedEnd(7))}. */
public final class BatchOptions {
  OptionalLong expectedEnd = OptionalLong.empty();
  boolean atomic;
  Duration timeout;

  BatchOptions() {}

  /**
   * The records are appended only if the log ends exactly there, with all that was accepted before;
   * else the error is END_MISMATCH.
   */
  public BatchOptions expectedEnd(long offset) {
    expectedEnd = OptionalLong.of(offset);
    return this;
  }

  /** All records become durable together or none. */
  public BatchOptions atomic() {
    atomic = true;
    return this;
  }

  /** As in {@link Producer#append(NewRecord, Duration)}. */
  public BatchOptions timeout(Duration time) {
    timeout = time;
    return this;
  }
}
