package dev.strandline.client;

import dev.strandline.v1.Appended;
import java.time.Duration;
import java.util.function.BiConsumer;

/** Decides what becomes of the requests that a round left without an answer. */
final class Repair {
  /** The log is asked for so long, even if the oldest record has hardly any time left. */
  private static final long LEAST = 1_000_000_000; // nanoseconds

  private final Verbs verbs;
  private final String log;
  private final Backlog backlog;
  private final ProducerSession session;
  private final BiConsumer<Request, Appended> takeOffsets;

  Repair(
      Calls calls,
      String log,
      Backlog backlog,
      ProducerSession session,
      BiConsumer<Request, Appended> takeOffsets) {
    this.log = log;
    this.backlog = backlog;
    this.session = session;
    this.takeOffsets = takeOffsets;
    verbs = new Verbs(calls);
  }

  /**
   * Deals with an interruption:
   *
   * <pre>
   *     producer or client closed     all fail
   *     no session                    what was sent fails: sending again could append twice
   *     another try may help          all stay and are sent again, in order
   *     no answer for too long        all fail, what was sent as in doubt
   *     the session is gone, or
   *     the log refused for good      what is in doubt is resolved, the rest fails; if
   *                                   all that was sent is in the log, nothing does
   * </pre>
   */
  void repair(Interruption i, Bound bound) {
    StrandlineException error = i.error();
    endStream(i);
    // A record that was too old may have got its answer while the stream was being ended.
    if (error.is(Reason.TIMED_OUT) && backlog.overdue() || error.is(Reason.CLOSED)) {
      backlog.fail(i);
    } else if (!backlog.options.session) {
      failSent(i);
    } else if (error.endsSession()) {
      resolve(false, bound);
      synchronized (backlog) {
        boolean doubtful = backlog.window.doubtful();
        backlog.continueOrFail(i);
        if (doubtful) {
          backlog.stop(error);
        } else {
          session.forget();
        }
      }
    } else if (!error.again()) {
      resolve(true, bound);
      backlog.continueOrFail(i);
    }
  }

  /**
   * Takes note of what the stream that ended has sent: it may be in the log, unless an answer says
   * more. Of the request that was refused the refusal does, and in a session that has ended nothing
   * sent behind it can be in the log.
   */
  private void endStream(Interruption i) {
    synchronized (backlog) {
      for (Request r : backlog.window.onStream()) {
        if (r == i.refused()) {
          r.outcome = r.outcome.then(i.error().outcome());
        } else if (i.refused() == null || !i.error().endsSession()) {
          r.outcome = r.outcome.then(Outcome.MAYBE_DONE);
        }
      }
      backlog.window.reset();
    }
  }

  private void failSent(Interruption i) {
    synchronized (backlog) {
      for (Request r = doubtful(); r != null; r = doubtful()) {
        backlog.settleError(r, i.error().with(Outcome.MAYBE_DONE));
        backlog.leave();
      }
      if (!i.error().again()) {
        backlog.fail(i);
      }
    }
  }

  /** The oldest request, if it is in doubt; else null. */
  private Request doubtful() {
    synchronized (backlog) {
      Request r = backlog.window.first();
      return r == null || r.outcome == Outcome.NOT_DONE ? null : r;
    }
  }

  /**
   * Asks the log what became of the requests in doubt. Those that are in it get their offsets. The
   * first that never will be clears those behind it too, as a session has no gaps. What is not
   * resolved in time, or before a close, stays in doubt.
   */
  private void resolve(boolean last, Bound bound) {
    Duration time = null;
    if (!backlog.options.recordTimeout.isZero()) {
      Request oldest = backlog.oldest();
      long waited = oldest == null ? 0 : System.nanoTime() - oldest.accepted;
      long left = Bound.nanos(backlog.options.recordTimeout) - waited;
      time = Duration.ofNanos(Math.max(left, LEAST));
    }
    try {
      resolveAll(last, new Bound(bound, time));
    } catch (StrandlineException e) {
      // They stay in doubt, and their errors say so.
    }
  }

  private void resolveAll(boolean last, Bound bound) {
    for (Request r = doubtful(); r != null; r = doubtful()) {
      Resolution found = resolve(r, 0, last, bound);
      synchronized (backlog) {
        Session s = backlog.session;
        if (s != null && found.epoch() > s.epoch()) {
          backlog.session = s.in(found.epoch());
        }
        if (found.state() == Resolution.State.NEVER) {
          // Of all sendings together.
          backlog.window.waiting().forEach(other -> other.outcome = Outcome.NOT_DONE);
        }
      }
      // A large request may be in the log in pieces: the last record says whether it is in one.
      boolean committed = found.state() == Resolution.State.COMMITTED;
      Resolution end = committed && r.count() > 1 ? resolve(r, r.count() - 1, last, bound) : found;
      if (!committed || end.state() != Resolution.State.COMMITTED) {
        return;
      }
      takeOffsets.accept(
          r,
          Appended.newBuilder()
              .setFirstOffset(found.offset())
              .setEndOffset(end.offset() + 1)
              .build());
    }
  }

  /** Asks until the answer is not "on its way". */
  private Resolution resolve(Request r, int index, boolean last, Bound bound) {
    Position at = new Position(backlog.logId, r.session, r.epoch, r.first + index);
    Pauses pauses = new Pauses();
    for (; ; ) {
      Resolution found = verbs.resolve(log, at, last, bound);
      if (found.state() != Resolution.State.PENDING) {
        return found;
      }
      pauses.pause(null, bound);
    }
  }
}
