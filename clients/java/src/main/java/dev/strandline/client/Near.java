package dev.strandline.client;

import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Knows how far nodes are, and for those who want the same labels a node that is near. */
final class Near {
  /** How long a measured round trip is believed: where nodes are changes rarely. */
  private static final long TRIP_LASTS = 60_000_000_000L; // nanoseconds

  private static final long NO_ANSWER = Long.MAX_VALUE;

  private final Calls calls;
  private final Map<String, String> nodes = new HashMap<>(); // guarded by this, as the rest is
  private final Map<String, Trip> trips = new HashMap<>();
  private final Map<String, CompletableFuture<Boolean>> asking = new HashMap<>();

  /** A round trip in nanoseconds, as measured once. */
  private record Trip(long took, long at) {}

  Near(Calls calls) {
    this.calls = calls;
  }

  synchronized String at(String key) {
    return nodes.get(key);
  }

  synchronized void remember(String key, String address) {
    nodes.put(key, address);
  }

  /** Notes that a node did not serve. */
  synchronized void forget(String key, String address) {
    nodes.remove(key, address);
  }

  private synchronized Long trip(String address) {
    Trip trip = trips.get(address);
    return trip == null || System.nanoTime() - trip.at > TRIP_LASTS ? null : (Long) trip.took;
  }

  /**
   * Sorts nodes by how long they take to answer. Those of which that is not known are all asked at
   * once. It waits for the first, and then as long again: who takes longer is far away. Where one
   * is known already, the others are asked for the next reader.
   */
  void sort(List<String> addresses, String log, Bound bound) {
    Signal answered = new Signal();
    List<CompletableFuture<Boolean>> asked =
        addresses.stream().filter(a -> trip(a) == null).map(a -> ask(a, log)).toList();
    if (asked.size() == addresses.size()) {
      asked.forEach(answer -> answer.whenComplete((yes, e) -> answered.fire()));
      long began = System.nanoTime();
      new Bound(bound, Peers.PATIENCE)
          .await(
              answered,
              () ->
                  asked.stream().allMatch(CompletableFuture::isDone)
                      || asked.stream().anyMatch(answer -> answer.getNow(false)));
      new Bound(bound, Duration.ofNanos(System.nanoTime() - began))
          .await(answered, () -> asked.stream().allMatch(CompletableFuture::isDone));
    }
    Map<String, Long> took = new HashMap<>();
    for (String address : addresses) {
      Long trip = trip(address);
      took.put(address, trip == null ? NO_ANSWER : trip);
    }
    addresses.sort(Comparator.comparing(took::get));
  }

  private synchronized CompletableFuture<Boolean> ask(String address, String log) {
    CompletableFuture<Boolean> already = asking.get(address);
    if (already != null) {
      return already;
    }
    CompletableFuture<Boolean> answer = new CompletableFuture<>();
    asking.put(address, answer);
    try {
      calls.threads.start(() -> measure(address, log, answer));
    } catch (StrandlineException e) {
      noted(address, NO_ANSWER, answer); // the client is closed
    }
    return answer;
  }

  /** Asks a node something that it knows, once there is a connection. */
  private void measure(String address, String log, CompletableFuture<Boolean> answer) {
    long took = NO_ANSWER;
    try {
      Peer peer = calls.peers.at(address);
      peer.connect(Peers.PATIENCE.multipliedBy(2), calls.life);
      long began = System.nanoTime();
      calls.knownInfo(peer, log, calls.life);
      took = System.nanoTime() - began;
    } catch (StrandlineException e) {
      // It is as far away as a node can be.
    } finally {
      noted(address, took, answer);
    }
  }

  private void noted(String address, long took, CompletableFuture<Boolean> answer) {
    synchronized (this) {
      trips.put(address, new Trip(took, System.nanoTime()));
      asking.remove(address);
    }
    answer.complete(took != NO_ANSWER);
  }
}
