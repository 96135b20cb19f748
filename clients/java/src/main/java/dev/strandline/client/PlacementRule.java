package dev.strandline.client;

import java.util.List;

/**
 * Where the voters of a log are to be, where its leader and where read replicas, by the labels of
 * nodes: KEY=VALUE, such as dc=fra. One that the nodes cannot keep is refused with PRECONDITION.
 *
 * @param spread the key of a label: of three values or more none has more than half of the voters,
 *     of two both have one; empty: voters need not be spread
 * @param votersIn voters are on nodes with one of these labels only; empty: on any
 * @param votersNotIn voters are on no node with one of these labels
 * @param leaderHomes where the leader is to be, the best first; one voter at least is in the first
 * @param readReplicas beside the voters, on other nodes
 */
public record PlacementRule(
    String spread,
    List<String> votersIn,
    List<String> votersNotIn,
    List<String> leaderHomes,
    List<ReadReplicas> readReplicas) {
  /** Demands nothing. */
  public static final PlacementRule EMPTY =
      new PlacementRule("", List.of(), List.of(), List.of(), List.of());

  /**
   * Read replicas on nodes with a label. They follow the log for ever, count for no majority, and
   * serve readers.
   *
   * @param label KEY=VALUE
   * @param count 1 to 16; 16 at the most of one log
   */
  public record ReadReplicas(String label, int count) {}

  /** The lists are copied. */
  public PlacementRule {
    votersIn = List.copyOf(votersIn);
    votersNotIn = List.copyOf(votersNotIn);
    leaderHomes = List.copyOf(leaderHomes);
    readReplicas = List.copyOf(readReplicas);
  }

  /** The same with voters spread over the values of a label. */
  public PlacementRule withSpread(String key) {
    return new PlacementRule(key, votersIn, votersNotIn, leaderHomes, readReplicas);
  }

  /** The same with voters on nodes with one of these labels only. */
  public PlacementRule withVotersIn(String... labels) {
    return new PlacementRule(spread, List.of(labels), votersNotIn, leaderHomes, readReplicas);
  }

  /** The same with voters on no node with one of these labels. */
  public PlacementRule withVotersNotIn(String... labels) {
    return new PlacementRule(spread, votersIn, List.of(labels), leaderHomes, readReplicas);
  }

  /** The same with homes of the leader, the best first. */
  public PlacementRule withLeaderHomes(String... labels) {
    return new PlacementRule(spread, votersIn, votersNotIn, List.of(labels), readReplicas);
  }

  /** The same with read replicas. */
  public PlacementRule withReadReplicas(ReadReplicas... all) {
    return new PlacementRule(spread, votersIn, votersNotIn, leaderHomes, List.of(all));
  }
}
