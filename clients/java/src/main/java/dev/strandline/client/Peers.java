package dev.strandline.client;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** All nodes that a client knows, and as far as answers have said so, which one leads which log. */
final class Peers {
  /** How long a node may take to take a connection while there are others to try. */
  static final Duration PATIENCE = Duration.ofSeconds(1);

  private static final int MAX_HOPS = 2; // nodes that know too little can point at each other
  private static final long HOPS_FORGOTTEN = 1_000_000_000; // nanoseconds

  final List<String> addresses;
  final boolean anywhere; // addresses other than loopback are allowed
  private final Function<String, Peer> make;
  private final Map<String, Peer> known = new HashMap<>(); // guarded by this, as the rest is
  private final Map<String, Lead> leads = new HashMap<>();
  private boolean closed;

  /** Who is believed to lead a log. */
  private static final class Lead {
    String address;
    boolean named; // by a node; else it is only the next to be asked
    int turn; // of the dialled addresses
    int hops; // hints followed in a row
    long moved = System.nanoTime() - HOPS_FORGOTTEN;

    Lead(String address) {
      this.address = address;
    }
  }

  Peers(List<String> addresses, boolean anywhere, Function<String, Peer> make) {
    this.addresses = addresses;
    this.anywhere = anywhere;
    this.make = make;
  }

  void close() {
    List<Peer> all;
    synchronized (this) {
      closed = true;
      all = List.copyOf(known.values());
    }
    // Not under the lock: whose calls end then may ask for more.
    all.forEach(Peer::close);
    if (Threads.inLoop()) {
      return;
    }
    try {
      for (Peer peer : all) {
        peer.awaitEnd();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  synchronized boolean closed() {
    return closed;
  }

  synchronized boolean terminated() {
    return known.values().stream().allMatch(Peer::terminated);
  }

  synchronized Peer at(String address) {
    if (closed) {
      throw StrandlineException.closed("client");
    }
    return known.computeIfAbsent(address, make);
  }

  /** Waits until the connection to a node is up. */
  Peer connect(Peer peer, Bound bound) {
    peer.connect(addresses.size() > 1 ? PATIENCE : null, bound);
    return peer;
  }

  private Lead lead(String log) {
    return leads.computeIfAbsent(log, l -> new Lead(addresses.get(0)));
  }

  synchronized String leader(String log) {
    return lead(log).address;
  }

  /** Whether a node has said who leads the log, and nothing has spoken against it since. */
  synchronized boolean named(String log) {
    return lead(log).named;
  }

  /** Remembers who is said to lead a log. */
  synchronized void prefer(String log, String address) {
    if (usable(address)) {
      Lead lead = lead(log);
      lead.address = address;
      lead.named = true;
    }
  }

  /** Whether a hint is worth following. */
  private boolean usable(String hint) {
    Address address = Address.parse(hint);
    if (closed || address == null || address.unspecified() || !(anywhere || address.loopback())) {
      return false;
    }
    Peer peer = known.get(hint);
    return peer == null || !peer.failing() && !peer.avoided();
  }

  /**
   * Notes that the node tried last does not serve the log: the next one is whom it named, or the
   * next dialled address. Of callers that tried the same node in vain only the first moves on.
   */
  synchronized void lookElsewhere(String log, String tried, String hint) {
    Lead lead = lead(log);
    if (!lead.address.equals(tried)) {
      return;
    }
    long now = System.nanoTime();
    if (now - lead.moved > HOPS_FORGOTTEN) {
      lead.hops = 0;
    }
    lead.moved = now;
    if (!hint.equals(tried) && lead.hops < MAX_HOPS && usable(hint)) {
      lead.address = hint;
      lead.named = true;
      lead.hops++;
      return;
    }
    lead.named = false;
    lead.hops = 0;
    for (int n = 0; n < addresses.size() && lead.address.equals(tried); n++) {
      lead.turn = (lead.turn + 1) % addresses.size();
      lead.address = addresses.get(lead.turn);
    }
  }
}
