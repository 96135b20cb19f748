package dev.strandline.client;

/** Stays with one of the dialled addresses as long as it serves, and follows no hint. */
final class ToDialled implements Route {
  private final Peers peers;
  private int turn;
  private Peer tried;

  ToDialled(Peers peers) {
    this.peers = peers;
  }

  /** Of the node whose turn it is. */
  String address() {
    return peers.addresses.get(turn);
  }

  @Override
  public Peer connect(Bound bound) {
    tried = peers.at(address());
    return peers.connect(tried, bound);
  }

  @Override
  public Peer tried() {
    return tried;
  }

  @Override
  public void elsewhere(StrandlineException failure) {
    turn = (turn + 1) % peers.addresses.size();
  }

  @Override
  public String leads() {
    return "";
  }

  @Override
  public int width(StrandlineException failure) {
    return peers.addresses.size();
  }
}
