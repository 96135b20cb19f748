package dev.strandline.client;

import dev.strandline.v1.LogInfo;
import dev.strandline.v1.ReplicaAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;

/**
 * The way to the replicas of a log, the best first. Who they are is asked again when all have been
 * tried.
 *
 * <p>With labels those are best whose nodes have the first of them, then the second, and so on, and
 * of equal ones the nearest by measured round trip. Without, voters that do not lead are tried at
 * random, then read replicas, which may be far away, and the leader last.
 */
final class ToReplica implements Route {
  private final Calls calls;
  private final String log;
  private final List<String> labels; // null: none is nearer
  private final String key; // null, too
  private final ToDialled ask;
  private final Deque<String> holders = new ArrayDeque<>();
  private int found;
  private Peer tried;

  ToReplica(Calls calls, String log, List<String> labels) {
    this.calls = calls;
    this.log = log;
    this.labels = labels;
    key = labels == null ? null : String.join(",", labels);
    ask = new ToDialled(calls.peers);
  }

  @Override
  public Peer connect(Bound bound) {
    if (holders.isEmpty()) {
      tried = null;
      find(bound);
    }
    tried = calls.peers.at(holders.getFirst());
    return calls.peers.connect(tried, bound);
  }

  private void find(Bound bound) {
    LogInfo info = askNear(bound);
    if (info == null) {
      info = calls.knownInfo(ask.connect(bound), log, bound);
    }
    List<ReplicaAddress> replicas = new ArrayList<>(info.getReplicasList());
    replicas.removeIf(r -> Address.wrong(r.getAddress(), calls.peers.anywhere) != null);
    holders.addAll(sort(replicas, bound));
    if (holders.isEmpty()) {
      holders.add(ask.address());
    }
    found = holders.size();
  }

  /**
   * What the node knows that was the nearest for an earlier reader: a dialled one may be far away.
   * Null: there is no such node, or it does not answer.
   */
  private LogInfo askNear(Bound bound) {
    String address = calls.near.at(key);
    if (address == null) {
      return null;
    }
    try {
      Peer peer = calls.peers.at(address);
      peer.connect(Peers.PATIENCE, bound);
      return calls.knownInfo(peer, log, bound);
    } catch (StrandlineException e) {
      calls.near.forget(key, address);
      return null;
    }
  }

  private int rank(ReplicaAddress replica) {
    if (labels == null) {
      return replica.getLeader() ? 2 : replica.getReadReplica() ? 1 : 0;
    }
    int rank = 0;
    while (rank < labels.size() && !replica.getLabelsList().contains(labels.get(rank))) {
      rank++;
    }
    return rank;
  }

  private List<String> sort(List<ReplicaAddress> replicas, Bound bound) {
    Collections.shuffle(replicas);
    replicas.sort(Comparator.comparing(this::rank));
    List<String> addresses =
        new ArrayList<>(replicas.stream().map(ReplicaAddress::getAddress).toList());
    if (key == null || replicas.isEmpty()) {
      return addresses;
    }
    int first = rank(replicas.get(0));
    int best = (int) replicas.stream().filter(r -> rank(r) == first).count();
    if (best > 1) {
      calls.near.sort(addresses.subList(0, best), log, bound);
    }
    calls.near.remember(key, addresses.get(0));
    return addresses;
  }

  @Override
  public Peer tried() {
    return tried != null ? tried : ask.tried();
  }

  @Override
  public void elsewhere(StrandlineException failure) {
    if (tried != null) {
      calls.near.forget(key, tried.address);
      if (tried.address.equals(holders.peekFirst())) {
        holders.removeFirst();
      }
    }
    if (holders.isEmpty()) {
      ask.elsewhere(failure);
    }
  }

  @Override
  public String leads() {
    return "";
  }

  @Override
  public int width(StrandlineException failure) {
    return Math.max(found, calls.peers.addresses.size());
  }
}
