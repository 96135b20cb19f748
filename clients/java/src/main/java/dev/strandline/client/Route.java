package dev.strandline.client;

/** Finds the node to ask. */
interface Route {
  /** The node whose turn it is, with a connection that is up. With an error nothing was sent. */
  Peer connect(Bound bound);

  /** The node that connect tried last; null: none. */
  Peer tried();

  /** Notes that the node tried does not serve, and moves on. */
  void elsewhere(StrandlineException failure);

  /** How many nodes may be tried, after a failure, before it is time to pause. */
  int width(StrandlineException failure);
}
