package dev.strandline.client;

import java.util.ArrayList;
import java.util.List;

/**
 * The requests in flight, oldest first: those that were put, or are just being put, on a stream and
 * have no answer. A request enters before its first byte leaves. Nothing here waits or calls
 * anybody.
 */
final class Window {
  // The automatic window. Few small requests at a time make callers that wait for each append meet
  // in one; many large ones fill a long link.
  private static final int MANY = 64;
  private static final int FEW = 4;
  private static final int LARGE = 64 << 10;
  private static final int BYTES = 16 << 20;

  private final int requests;
  private final int small; // requests beyond these must be large
  private final long most; // bytes
  private List<Request> flight = new ArrayList<>();
  private int sent; // of them, on the stream that is open now
  private boolean held; // nothing more is put on that stream
  private long bytes;

  /** 0 stands for the automatic bound. */
  Window(int requests, long bytes) {
    this.requests = requests > 0 ? requests : MANY;
    small = requests > 0 ? requests : FEW;
    most = bytes > 0 ? bytes : BYTES;
  }

  /** Whether a request of that size may be sent now. One larger than the window goes alone. */
  boolean admits(long size) {
    int n = flight.size();
    if (held) {
      return false;
    }
    if (n == 0) {
      return true;
    }
    return n < requests && bytes + size <= most && (n < small || size >= LARGE);
  }

  void push(Request r) {
    flight.add(r);
    bytes += r.size;
  }

  /** Takes the next request that has to be sent on this stream; null: there is none. */
  Request send() {
    return sent < flight.size() && !held ? flight.get(sent++) : null;
  }

  /** Lets nothing more be put on the stream that is open now. */
  void hold() {
    held = true;
  }

  /** The request that the next answer is for; null: none is on the stream. */
  Request oldest() {
    return sent > 0 ? flight.get(0) : null;
  }

  /** The oldest request, sent or not; null: there is none. */
  Request first() {
    return flight.isEmpty() ? null : flight.get(0);
  }

  /** Those that are on the stream. */
  List<Request> onStream() {
    return flight.subList(0, sent);
  }

  Request pop() {
    Request r = flight.remove(0);
    bytes -= r.size;
    sent = Math.max(0, sent - 1);
    return r;
  }

  /** For a stream that has ended: all has to be sent again, but for what has failed already. */
  void reset() {
    keep(waiting());
    sent = 0;
    held = false;
  }

  /** Takes out what is not on the stream, marks the rest, and returns all that had not failed. */
  List<Request> fail() {
    List<Request> ended = waiting();
    keep(new ArrayList<>(onStream()));
    flight.forEach(r -> r.state = Request.State.FAILED);
    return ended;
  }

  private void keep(List<Request> these) {
    flight = these;
    bytes = these.stream().mapToLong(r -> r.size).sum();
  }

  /** What has not failed. */
  List<Request> waiting() {
    List<Request> some = new ArrayList<>(flight);
    some.removeIf(r -> !r.waits());
    return some;
  }

  /** The oldest that has not failed; null: there is none. */
  Request oldestWaiting() {
    for (Request r : flight) {
      if (r.waits()) {
        return r;
      }
    }
    return null;
  }

  /** The sequence below which all answers are there. */
  long lowWater() {
    Request r = oldestWaiting();
    return r == null ? 0 : r.first;
  }

  /** Whether a request may be in the log by an earlier sending. */
  boolean doubtful() {
    return flight.stream().anyMatch(r -> r.outcome != Outcome.NOT_DONE && r.waits());
  }
}
