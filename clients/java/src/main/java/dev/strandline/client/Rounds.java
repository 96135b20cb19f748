package dev.strandline.client;

import dev.strandline.v1.AppendRequest;
import dev.strandline.v1.AppendResponse;
import dev.strandline.v1.Appended;
import java.util.function.IntToLongFunction;
import java.util.stream.LongStream;

/**
 * Sends what a backlog holds. A round begins with a stream and ends with an interruption, which
 * says why; between two of them repair decides what becomes of what has no answer. Rounds have a
 * thread, which waits for their ends; requests and answers are sent and taken by the thread of the
 * client.
 */
final class Rounds {
  private final Calls calls;
  private final String log;
  private final Backlog backlog;
  private final ProducerSession session;
  private final ToLeader route;
  private volatile String node = "";
  private final Repair repair;
  private final Bound end; // of the producer
  private final Signal work = new Signal();
  private final Token.Shown shown = new Token.Shown();

  // Guarded by the backlog.
  private Bound over; // of the round
  private boolean underWay; // a round
  private Interruption interruption;
  private AppendStream stream;
  private Interruption last; // of the stream; waits for the answers to what was sent
  private long appended; // requests
  private boolean scheduled; // a look at what can be sent
  private boolean troubled; // the application has heard of it
  private boolean continued; // what it has not been told yet

  Rounds(Calls calls, String log, Backlog backlog, ProducerSession session) {
    this.calls = calls;
    this.log = log;
    this.backlog = backlog;
    this.session = session;
    route = new ToLeader(calls, log, false);
    end = new Bound(calls.life, null);
    over = new Bound(end, null);
    repair = new Repair(calls, log, backlog, session, this::takeOffsets);
    backlog.onChange = this::wake;
  }

  /** Sends until the producer ends. */
  void run() {
    try (Watch watch = new Watch(calls, log, backlog, session, this)) {
      watch.begin();
      Pauses pauses = null;
      int width = 1;
      while (!end.over()) {
        if (idle()) {
          pauses = null;
          end.await(work, () -> !idle());
          continue;
        }
        long before = appended();
        round(pauses, width);
        pauses = appended() != before ? null : pauses != null ? pauses : new Pauses();
        Interruption i = interrupted();
        width = i.error().elsewhere() ? route.width(i.error()) : 1;
        if (i.error().elsewhere()) {
          route.elsewhere(i.error());
        }
        boolean told = i.error().again() && !i.error().is(Reason.TIMED_OUT) && !end.over();
        if (told) {
          synchronized (backlog) {
            troubled = true;
          }
          calls.trouble(log, i.error());
        }
        repair.repair(i, end);
        tellOfEnd();
        deliver();
      }
    } finally {
      backlog.fail(new Interruption(StrandlineException.closed("producer")));
      deliver();
    }
  }

  /**
   * Has the futures of what is settled completed by the thread of the client: this one must not
   * wait for room in what is chained to them.
   */
  private void deliver() {
    if (!calls.threads.onLoop(backlog::deliver)) {
      backlog.deliver();
    }
  }

  /** Tells the application when records are appended again after trouble. */
  private void tellOfEnd() {
    synchronized (backlog) {
      if (!continued) {
        return;
      }
      continued = false;
    }
    calls.trouble(log, null);
  }

  private boolean idle() {
    synchronized (backlog) {
      return backlog.oldest() == null && interruption == null;
    }
  }

  private long appended() {
    synchronized (backlog) {
      return appended;
    }
  }

  /** Ends the producer: what has no answer fails. */
  void end() {
    end.end();
    interrupt(new Interruption(StrandlineException.closed("producer")));
  }

  /** Ends with the producer. */
  Bound life() {
    return end;
  }

  /** The address of the node that has the requests; empty: none has had any. */
  String node() {
    return node;
  }

  /** Ends with the round that is now. */
  Bound round() {
    synchronized (backlog) {
      return over;
    }
  }

  /**
   * Whether there is a round now. Between two of them the log is asked for outcomes: what is too
   * old then is settled before the next one, in which records that are accepted later must not fail
   * for it.
   */
  boolean underWay() {
    synchronized (backlog) {
      return underWay;
    }
  }

  /** Ends the round, or the next one if there is none now. Of several reasons the first counts. */
  void interrupt(Interruption i) {
    synchronized (backlog) {
      if (interruption == null) {
        interruption = i;
      }
      over.end();
    }
    work.fire();
  }

  /** Takes the reason why the round ended, and makes room for that of the next. */
  private Interruption interrupted() {
    synchronized (backlog) {
      Interruption i = interruption;
      interruption = null;
      underWay = false;
      over = new Bound(end, null);
      return i != null && !end.over()
          ? i
          : new Interruption(StrandlineException.closed("producer"));
    }
  }

  /** Runs a round until it is interrupted. */
  private void round(Pauses pauses, int width) {
    Bound round;
    synchronized (backlog) {
      round = over;
      underWay = true;
    }
    try {
      if (pauses != null) {
        pauses.between(route.tried(), width, round);
      }
      Peer peer = route.connect(round);
      node = peer.address;
      session.reopen(round);
      calls.threads.onLoop(() -> open(peer, round));
    } catch (StrandlineException e) {
      interrupt(new Interruption(calls.failure(e)));
    }
    round.await();
    AppendStream ended;
    synchronized (backlog) {
      ended = stream;
      stream = null;
    }
    if (ended != null) {
      calls.threads.onLoop(ended::close);
    }
  }

  // What follows is done by the thread of the client.

  private void open(Peer peer, Bound round) {
    if (round.over()) {
      return;
    }
    AppendStream opened;
    try {
      opened =
          new AppendStream(
              peer,
              shown,
              this::take,
              (of, error) -> {
                Interruption i = lastOf(of);
                if (i == null) {
                  i = new Interruption(shown.failure(calls.failure(error)));
                }
                synchronized (backlog) {
                  if (stream == of) {
                    interrupt(i);
                  }
                }
              });
    } catch (StrandlineException e) { // there is no token
      interrupt(new Interruption(e));
      return;
    }
    backlog.streaming();
    boolean late;
    synchronized (backlog) {
      late = round != over || round.over();
      stream = late ? null : opened;
      last = null;
    }
    if (late) {
      opened.close();
    } else {
      send();
    }
  }

  /** Has what can be sent looked at. Called by whoever has changed something; under the lock. */
  private void wake() {
    work.fire();
    Request r = backlog.candidate();
    if (scheduled || stream == null || r == null || !backlog.window.admits(r.size)) {
      return;
    }
    if (r.lingers && !r.urgent && backlog.forms(r)) {
      return;
    }
    scheduled = true;
    calls.threads.onLoop(
        () -> {
          synchronized (backlog) {
            scheduled = false;
          }
          send();
        });
  }

  /** Puts requests on the stream, in order. */
  private void send() {
    for (; ; ) {
      AppendRequest.Builder request;
      AppendStream on;
      synchronized (backlog) {
        on = stream;
        Request r = on == null || interruption != null ? null : next();
        if (r == null) {
          return;
        }
        request = address(r);
      }
      on.send(request, log);
    }
  }

  /** The next request for the stream, if the window has room for it and it does not linger. */
  private Request next() {
    Request r = backlog.window.send();
    if (r != null) {
      return r;
    }
    r = backlog.candidate();
    if (r == null || !backlog.window.admits(r.size)) {
      return null;
    }
    if (backlog.forms(r) && !r.urgent && !backlog.options.linger.isZero()) {
      long left = Bound.nanos(backlog.options.linger) - (System.nanoTime() - r.accepted);
      if (left > 0) {
        if (!r.lingers) {
          r.lingers = true;
          calls.threads.later(this::send, left);
        }
        return null;
      }
    }
    backlog.closeBatch();
    return backlog.window.send();
  }

  private AppendRequest.Builder address(Request r) {
    backlog.sending(r);
    AppendRequest.Builder request =
        AppendRequest.newBuilder()
            .setLogId(backlog.logId)
            .setSessionId(r.session)
            .setEpoch(r.epoch)
            .setFirstSequence(r.first)
            .setLowWater(r.session == 0 ? 0 : backlog.window.lowWater())
            .setWriterTerm(backlog.options.writerTerm)
            .setAtomic(r.atomic);
    if (r.check != null) {
      request.setChecked(r.check.toBuilder().addAllRecords(r.records));
    } else {
      request.addAllRecords(r.records);
    }
    r.expectedEnd.ifPresent(request::setExpectedEnd);
    return request;
  }

  /** Takes an answer. They come in the order of the requests. */
  private void take(AppendStream from, AppendResponse answer) {
    // Not under the lock: the application may be asked for another token.
    StrandlineException refused =
        answer.hasAppended() || !reads(from)
            ? null
            : refused(from, StrandlineException.of(answer.getRefused()));
    synchronized (backlog) {
      if (stream != from || interruption != null) {
        return;
      }
      Request r = backlog.window.oldest();
      if (r == null) {
        interrupt(
            new Interruption(
                StrandlineException.unreachable(
                    Outcome.MAYBE_DONE, "an answer without a request")));
      } else if (!r.waits()) {
        backlog.leave();
      } else if (answer.hasAppended()) {
        takeOffsets(r, answer.getAppended());
      } else {
        takeRefusal(r, refused);
      }
      if (last != null && backlog.window.oldest() == null) {
        interrupt(last);
      }
    }
    tellOfEnd();
    backlog.deliver();
    send();
  }

  /** Whether the next answer of the stream is taken, and is to what waits for one. */
  private boolean reads(AppendStream from) {
    synchronized (backlog) {
      Request r = backlog.window.oldest();
      return stream == from && interruption == null && r != null && r.waits();
    }
  }

  private Interruption lastOf(AppendStream of) {
    synchronized (backlog) {
      return stream == of ? last : null;
    }
  }

  /** What a refusal means. */
  private StrandlineException refused(AppendStream by, StrandlineException refused) {
    if (lastOf(by) == null) {
      return shown.failure(refused);
    }
    // It was sent with the same token, and there is another.
    return refused.is(Reason.UNAUTHENTICATED) ? refused.withRetry() : refused;
  }

  private void takeOffsets(Request r, Appended a) {
    synchronized (backlog) {
      IntToLongFunction offsets = i -> a.getFirstOffset() + i;
      long count = a.getEndOffset() - a.getFirstOffset();
      if (a.getRangesCount() > 0) {
        long[] all =
            a.getRangesList().stream()
                .flatMapToLong(range -> LongStream.range(range.getFirst(), range.getEnd()))
                .limit(r.count() + 1L)
                .toArray();
        offsets = i -> all[i];
        count = all.length;
      }
      if (count == r.count()) {
        appended++;
        shown.progressed();
        continued |= troubled;
        troubled = false;
        backlog.settle(r, offsets);
      } else {
        backlog.settleError(
            r,
            new StrandlineException(
                Reason.OUTCOME_FORGOTTEN, "the answer does not match the request", Outcome.DONE));
      }
      backlog.leave();
    }
  }

  /** Deals with a refusal. What takes more than failing requests ends the round. */
  private void takeRefusal(Request r, StrandlineException error) {
    if (!backlog.options.session) {
      if (error.renewed() && last == null) {
        // Those behind it have answers of their own: without a session nothing else says what
        // became of them.
        backlog.window.hold();
        last = new Interruption(error, r);
      }
      backlog.settleError(r, error);
      backlog.leave();
      if (error.elsewhere()) {
        interrupt(new Interruption(error, r));
      }
      return;
    }
    if (error.outcome() == Outcome.DONE) {
      // It is in the log, so nothing slips ahead of it: those behind go on.
      backlog.settleError(r, error);
      backlog.leave();
      return;
    }
    Interruption i = new Interruption(error, r);
    boolean settled = error.outcome() == Outcome.NOT_DONE && !backlog.window.doubtful();
    if (error.again() || error.endsSession() || !settled) {
      interrupt(i);
      return;
    }
    backlog.fail(i);
    backlog.leave();
  }
}
