package dev.strandline.client;

import java.time.Instant;
import java.util.List;
import java.util.OptionalLong;

/**
 * A log as the node that answered knows it. Offsets in [start, end) can be read.
 *
 * @param name its name
 * @param id another log of the same name has another id
 * @param config its configuration
 * @param created when it was created
 * @param start the offset of the oldest record
 * @param end the offset after the newest committed record
 * @param bytesUsed what it takes on that node
 * @param bytesFree what that node has left for all its logs
 * @param writerTerm the newest
 * @param openSessions how many
 * @param leader the address of the leader; empty: not known
 * @param sealed it takes no more appends
 * @param problem empty, or why the log cannot be served there
 * @param unknown no node that holds the log has answered: offsets and sizes say nothing
 * @param replicas where it can be read
 * @param holds by name; only {@link Admin#info} gives them
 */
public record LogInfo(
    String name,
    long id,
    LogConfig config,
    Instant created,
    long start,
    long end,
    long bytesUsed,
    long bytesFree,
    long writerTerm,
    int openSessions,
    String leader,
    boolean sealed,
    String problem,
    boolean unknown,
    List<Replica> replicas,
    List<Hold> holds) {
  /**
   * Where one replica of a log can be reached.
   *
   * @param node the node's name
   * @param address the address of its gRPC port
   * @param leader whether it leads the log
   * @param readReplica whether it follows for ever, and counts for no majority
   * @param labels of the node: KEY=VALUE
   * @param lag how many records it has less than the leader; empty: not known; only {@link
   *     Admin#info} gives it
   */
  public record Replica(
      String node,
      String address,
      boolean leader,
      boolean readReplica,
      List<String> labels,
      OptionalLong lag) {}
}
