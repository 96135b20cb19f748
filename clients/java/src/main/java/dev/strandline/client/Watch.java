package dev.strandline.client;

import dev.strandline.v1.GetInfoRequest;
import dev.strandline.v1.LogInfo;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Looks after the rounds of a producer from time to time: it ends those that take too long, leaves
 * a leader that has fallen silent, and keeps the lease of a session that is idle.
 */
final class Watch implements AutoCloseable {
  /**
   * How long requests may be without any answer before others are asked who leads: a leader that
   * was paused, or cut off one way, keeps its connections.
   */
  private static final long SUSPECT_AFTER = 1_000_000_000; // nanoseconds

  private static final LogInfo NOTHING = LogInfo.getDefaultInstance();

  private final Calls calls;
  private final String log;
  private final Backlog backlog;
  private final ProducerSession session;
  private final Rounds rounds;
  private final AtomicBoolean suspecting = new AtomicBoolean();
  private final AtomicBoolean keeping = new AtomicBoolean();
  private Future<?> clock;

  Watch(Calls calls, String log, Backlog backlog, ProducerSession session, Rounds rounds) {
    this.calls = calls;
    this.log = log;
    this.backlog = backlog;
    this.session = session;
    this.rounds = rounds;
  }

  void begin() {
    ProducerOptions o = backlog.options;
    long beat = 1_000_000_000;
    if (!o.recordTimeout.isZero()) {
      beat = Math.min(beat, Bound.nanos(o.recordTimeout) / 4);
    }
    if (o.session) {
      beat = Math.min(beat, Bound.nanos(o.lease) / 12);
    }
    beat = Math.max(beat, 1_000_000);
    clock = calls.threads.every(beat, this::look);
  }

  @Override
  public void close() {
    if (clock != null) {
      clock.cancel(false);
    }
  }

  private void look() {
    boolean silent;
    synchronized (backlog) {
      long now = System.nanoTime();
      if (rounds.underWay() && backlog.overdue()) {
        String message = "no answer within " + backlog.options.recordTimeout.toMillis() + " ms";
        rounds.interrupt(
            new Interruption(
                StrandlineException.again(Reason.TIMED_OUT, message, Outcome.NOT_DONE, Map.of())));
      }
      Request first = backlog.window.oldest();
      silent =
          first != null
              && now - backlog.lastSign > SUSPECT_AFTER
              && now - first.sent > SUSPECT_AFTER;
    }
    if (silent) {
      once(suspecting, this::suspect);
    }
    if (session.fades()) {
      once(keeping, this::keep);
    }
  }

  /** Has a thread do something, unless one does it already. */
  private void once(AtomicBoolean busy, Runnable work) {
    if (!busy.compareAndSet(false, true)) {
      return;
    }
    try {
      calls.threads.start(
          () -> {
            try {
              work.run();
            } finally {
              busy.set(false);
            }
          });
    } catch (StrandlineException e) {
      busy.set(false); // the client is closed
    }
  }

  /**
   * Ends the round if the node that has our requests is silent and another leads by now. Should the
   * others be wrong, that one says so, and what was sent again is recognised.
   */
  private void suspect() {
    Bound round = rounds.round();
    // Who is believed to lead does not matter: a call may have found that out meanwhile.
    String node = rounds.node();
    List<CompletableFuture<LogInfo>> asked =
        calls.peers.addresses.stream()
            .filter(address -> !address.equals(node))
            .map(this::ask)
            .toList();
    Calls.await(asked, new Bound(round, Peers.PATIENCE));
    LogInfo newest = NOTHING;
    for (CompletableFuture<LogInfo> answer : asked) {
      LogInfo known = answer.getNow(NOTHING);
      if (!known.getLeader().isEmpty()
          && (newest.getLeader().isEmpty() || known.getLeaderTerm() > newest.getLeaderTerm())) {
        newest = known;
      }
    }
    String leader = newest.getLeader();
    if (leader.isEmpty() || leader.equals(node) || round.over()) {
      return;
    }
    rounds.interrupt(
        new Interruption(
            StrandlineException.again(
                Reason.NOT_LEADER,
                "the leader is silent, and " + leader + " leads now",
                Outcome.MAYBE_DONE,
                Map.of("leader", leader))));
  }

  /** What a node knows of the log; nothing if it does not answer. */
  private CompletableFuture<LogInfo> ask(String address) {
    GetInfoRequest request = GetInfoRequest.newBuilder().setLog(log).setAllowStale(true).build();
    return calls
        .ask(address, Methods.GET_INFO, request, Peers.PATIENCE)
        .handle((answer, error) -> error == null ? answer.getInfo() : NOTHING);
  }

  private void keep() {
    StrandlineException error = session.keep(rounds.life());
    if (error != null && error.endsSession()) {
      rounds.interrupt(new Interruption(error));
    }
  }
}
