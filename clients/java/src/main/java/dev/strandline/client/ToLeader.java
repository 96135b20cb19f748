package dev.strandline.client;

/**
 * The way to the node that leads a log. All who use it share what is known. A read has to ask
 * first: it is not turned away by a node that does not lead.
 */
final class ToLeader implements Route {
  private final Calls calls;
  private final String log;
  private final boolean ask;
  private Peer tried;

  ToLeader(Calls calls, String log, boolean ask) {
    this.calls = calls;
    this.log = log;
    this.ask = ask;
  }

  @Override
  public Peer connect(Bound bound) {
    Peer peer = toLeader(bound);
    if (!ask || calls.peers.named(log)) {
      return peer;
    }
    try {
      calls.peers.prefer(log, calls.knownInfo(peer, log, bound).getLeader());
    } catch (StrandlineException e) {
      return peer; // which answers the read, or says why it does not
    }
    return toLeader(bound);
  }

  private Peer toLeader(Bound bound) {
    tried = calls.peers.at(calls.peers.leader(log));
    return calls.peers.connect(tried, bound);
  }

  @Override
  public Peer tried() {
    return tried;
  }

  @Override
  public void elsewhere(StrandlineException failure) {
    calls.peers.lookElsewhere(log, tried == null ? null : tried.address, failure.leader());
  }

  @Override
  public String leads() {
    return log;
  }

  @Override
  public int width(StrandlineException failure) {
    return calls.peers.addresses.size() + (failure.leader().isEmpty() ? 0 : 1);
  }
}
