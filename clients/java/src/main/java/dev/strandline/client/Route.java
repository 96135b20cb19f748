package dev.strandline.client;

/** Finds the node to ask. */
interface Route {
  /** The node whose turn it is, with a connection that is up. With an error nothing was sent. */
  Peer connect(Bound bound);

  /** The node that connect tried last; null: none. */
  Peer tried();

  /** Notes that the node tried does not serve, and moves on. */
  void elsewhere(StrandlineException failure);

  /** The log whose leader is looked for; empty: other nodes answer as well. */
  String leads();

  /** How many nodes may be tried, after a failure, before it is time to pause. */
  int width(StrandlineException failure);
}
