package dev.strandline.client;

import com.google.protobuf.Empty;
import dev.strandline.v1.GetInfoRequest;
import dev.strandline.v1.LogInfo;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;

/**
 * Waits for a node, and leaves it when it is silent while another one answers. A node that was
 * paused, or cut off one way, keeps its connections, and the transport takes 15 s to notice.
 */
final class Silence {
  private static final Duration AGAIN = Duration.ofMillis(500);

  private final Calls calls;
  private final Peer peer;
  private final String log; // whose leader is asked; empty: other nodes answer as well
  private final Duration first;
  private final Duration again;
  private final Duration patience; // for the answer to a question that costs nothing
  private final boolean quiet; // it may have nothing to say

  /** What a node answers to a question that costs nothing. */
  private record Sign(boolean alive, String leader, long term) {}

  private static final Sign NONE = new Sign(false, "", 0);
  private static final Sign THERE = new Sign(true, "", 0);

  private Silence(
      Calls calls,
      Peer peer,
      String log,
      Duration first,
      Duration again,
      Duration patience,
      boolean quiet) {
    this.calls = calls;
    this.peer = peer;
    this.log = log;
    this.first = first;
    this.again = again;
    this.patience = patience;
    this.quiet = quiet;
  }

  /** That of a call that may be made twice. */
  static Silence ofCall(Calls calls, Peer peer, Route route) {
    Duration patience = calls.answerPatience;
    return new Silence(calls, peer, route.leads(), calls.suspectAfter, AGAIN, patience, false);
  }

  /**
   * That of a call that renews a lease: another node is to be asked while it lasts, which the next
   * leader gives anew. Even the look that begins just before another node leads, and the next one,
   * take half of the lease together.
   */
  static Silence ofRenewal(Calls calls, Peer peer, Route route, Duration lease) {
    Duration sixth = lease.dividedBy(6);
    Duration first = least(calls.suspectAfter, sixth);
    Duration patience = least(calls.answerPatience, sixth);
    return new Silence(calls, peer, route.leads(), first, least(AGAIN, sixth), patience, false);
  }

  private static Duration least(Duration a, Duration b) {
    return a.compareTo(b) < 0 ? a : b;
  }

  /** That of a reader, which at the end of a log that takes no appends rarely gets a frame. */
  static Silence ofReader(Calls calls, Peer peer, Route route, boolean placed) {
    Duration twice = calls.suspectAfter.multipliedBy(2);
    Duration first = placed ? twice : calls.suspectAfter;
    return new Silence(calls, peer, route.leads(), first, twice, calls.answerPatience, placed);
  }

  /** That of who watches a log, which has nothing to say while nothing changes, on any node. */
  static Silence ofWatch(Calls calls, Peer peer) {
    Duration twice = calls.suspectAfter.multipliedBy(2);
    return new Silence(calls, peer, "", twice, twice, calls.answerPatience, true);
  }

  /** That of a stream of the node that leads a log, which shows its state again and again. */
  static Silence ofLasting(Calls calls, Peer peer, Route route) {
    Duration twice = calls.suspectAfter.multipliedBy(2);
    return new Silence(calls, peer, route.leads(), twice, twice, calls.answerPatience, false);
  }

  /** Waits until something is so, or the bound ends, or there is a reason to leave the node. */
  StrandlineException await(Bound bound, Signal fired, BooleanSupplier so) {
    if (!others()) {
      bound.await(fired, so);
      return null;
    }
    for (Duration time = first; !new Bound(bound, time).await(fired, so); time = again) {
      if (bound.over()) {
        return null;
      }
      if (quiet && answers(new Bound(bound, patience))) {
        continue;
      }
      StrandlineException why = leave(new Bound(bound, patience));
      if (why != null && !so.getAsBoolean()) {
        return why;
      }
    }
    return null;
  }

  private boolean others() {
    List<String> all = calls.peers.addresses;
    return peer != null && (all.size() > 1 || !all.get(0).equals(peer.address));
  }

  /**
   * Why the node is to be left: another one leads the log in a newer term than it knows of, or it
   * does not even answer a question that costs nothing while another one does. Null: nothing speaks
   * for that.
   */
  private StrandlineException leave(Bound bound) {
    CompletableFuture<Sign> own = ask(peer.address);
    List<CompletableFuture<Sign>> asked =
        calls.peers.addresses.stream()
            .filter(address -> !address.equals(peer.address))
            .map(this::ask)
            .toList();
    List<CompletableFuture<Sign>> all = new ArrayList<>(asked);
    all.add(own);
    Calls.await(all, bound);
    boolean alive = false;
    String leader = "";
    long term = 0;
    for (CompletableFuture<Sign> answer : asked) {
      Sign sign = answer.getNow(NONE);
      alive |= sign.alive;
      if (!sign.leader.isEmpty() && sign.term >= term) {
        leader = sign.leader;
        term = sign.term;
      }
    }
    Sign of = own.getNow(NONE);
    boolean another = !leader.isEmpty() && !leader.equals(peer.address);
    if (another && (!of.alive || !of.leader.isEmpty() && term > of.term)) {
      if (!of.alive) {
        peer.avoid();
      }
      return StrandlineException.again(
          Reason.NOT_LEADER,
          peer.address + " does not answer, and " + leader + " leads now",
          Outcome.MAYBE_DONE,
          Map.of("leader", leader));
    }
    if (of.alive || !alive || !leader.isEmpty()) {
      return null; // the next look may find more
    }
    peer.avoid();
    return StrandlineException.unreachable(
        Outcome.MAYBE_DONE, peer.address + " does not answer for now, and other nodes do");
  }

  private CompletableFuture<Sign> ask(String address) {
    if (log.isEmpty()) {
      Empty nothing = Empty.getDefaultInstance();
      return calls
          .ask(address, Methods.HEALTH, nothing, patience)
          .handle((answer, error) -> error == null ? THERE : sign(error));
    }
    GetInfoRequest request = GetInfoRequest.newBuilder().setLog(log).setAllowStale(true).build();
    return calls
        .ask(address, Methods.GET_INFO, request, patience)
        .handle((answer, error) -> error == null ? sign(answer.getInfo()) : sign(error));
  }

  private static Sign sign(LogInfo info) {
    return new Sign(true, info.getLeader(), info.getLeaderTerm());
  }

  /** Whatever a node answers, it is there. */
  private static Sign sign(Throwable error) {
    StrandlineException e = StrandlineException.of(error);
    boolean none = e.is(Reason.UNREACHABLE) || e.is(Reason.CANCELLED) || e.is(Reason.CLOSED);
    return none ? NONE : THERE;
  }

  /** Whether the node answers at all. */
  private boolean answers(Bound bound) {
    try {
      calls.on(peer, Methods.HEALTH, Empty.getDefaultInstance(), bound);
      return true;
    } catch (StrandlineException e) {
      return sign(e).alive;
    }
  }
}
