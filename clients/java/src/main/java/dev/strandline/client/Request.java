package dev.strandline.client;

import dev.strandline.v1.CheckedAppend;
import dev.strandline.v1.Record;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/** Records that travel together: accepted, closed, sent, perhaps sent again, and settled once. */
final class Request {
  /** How far a request has come. */
  enum State {
    /** It forms or is queued, and has no place in its session. */
    ACCEPTED,
    /** It is in the window. */
    IN_FLIGHT,
    /** It was settled with one in front of it, while its own answer is still to come. */
    FAILED
  }

  final long accepted = System.nanoTime();
  final List<Record> records = new ArrayList<>();
  final List<CompletableFuture<Long>> futures = new ArrayList<>(); // one for each record
  final CompletableFuture<Void> settled = new CompletableFuture<>(); // when all futures are
  OptionalLong expectedEnd = OptionalLong.empty();
  boolean atomic;
  CheckedAppend check; // without the records; null: none
  long size;
  boolean urgent; // it does not linger
  boolean lingers; // somebody looks at it when that is over
  State state = State.ACCEPTED;
  long session; // with epoch and first: the place in the session, once in flight
  int epoch;
  long first;
  long sent; // when first; 0: not yet
  Outcome outcome = Outcome.NOT_DONE; // of all sendings that have ended

  void add(Record record, CompletableFuture<Long> future, long bytes) {
    records.add(record);
    futures.add(future);
    size += bytes;
  }

  int count() {
    return records.size();
  }

  boolean waits() {
    return state != State.FAILED;
  }
}
