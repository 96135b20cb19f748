package dev.strandline.client;

import dev.strandline.v1.CheckedAppend;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.function.Consumer;

/** Conditions of a batch: {@code producer.appendBatch(records, o -> o.expectedEnd(7))}. */
public final class BatchOptions {
  OptionalLong expectedEnd = OptionalLong.empty();
  boolean atomic;
  CheckedAppend check; // null: none
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

  /**
   * All records are appended or none, and only if the check that configure makes holds, with all
   * that was accepted before. Else the error is CONFLICT, whose offset and key are those of a
   * record that matches: read from {@link Check#since} on, decide again, and check since where you
   * have read to; or CHECK_TOO_OLD, if the log cannot decide the check from so far back, but only
   * from {@link StrandlineException#startOffset} on: read up to there. In both cases nothing was
   * appended. An append that was accepted and is sent again succeeds. The caller needs the right to
   * read the log.
   */
  public BatchOptions check(Consumer<Check> configure) {
    Check made = new Check();
    configure.accept(made);
    check = made.toWire();
    return this;
  }

  /** As in {@link Producer#append(NewRecord, Duration)}. */
  public BatchOptions timeout(Duration time) {
    timeout = time;
    return this;
  }
}
