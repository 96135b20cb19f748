package dev.strandline.client;

import java.time.Duration;
import java.util.Optional;

/**
 * What a log is created with, and can be changed to.
 *
 * @param durability what an acknowledgement rests on; cannot be changed later
 * @param retention records older than this are trimmed; empty: never
 * @param retentionBytes the oldest records beyond this are trimmed; 0: never
 * @param replicas how many nodes are to hold it; 0: three, or as many as there are
 * @param fenced once a writer term has been acquired, appends without one are refused
 * @param revision of the configuration that was read; {@link Admin#configureLog} refuses another
 *     one. 0: whichever there is
 * @param rule the log's own; empty leaves it to {@link Admin#configureLog} as it is, and {@link
 *     PlacementRule#EMPTY} takes it away, so that the one of the longest prefix of the log's name
 *     holds
 */
public record LogConfig(
    Durability durability,
    Optional<Duration> retention,
    long retentionBytes,
    int replicas,
    boolean fenced,
    long revision,
    Optional<PlacementRule> rule) {
  /** Everything as it is where nothing is said. */
  public static final LogConfig DEFAULT =
      new LogConfig(Durability.DISK, Optional.empty(), 0, 0, false, 0, Optional.empty());

  /** What an acknowledgement rests on. */
  public enum Durability {
    /** On disk, fsynced, on a majority of replicas. */
    DISK,
    /** In the memory of a majority of replicas. */
    MEMORY
  }

  /** The same with another durability. */
  public LogConfig withDurability(Durability d) {
    return new LogConfig(d, retention, retentionBytes, replicas, fenced, revision, rule);
  }

  /** The same with another retention; null: none. */
  public LogConfig withRetention(Duration d) {
    Optional<Duration> other = Optional.ofNullable(d);
    return new LogConfig(durability, other, retentionBytes, replicas, fenced, revision, rule);
  }

  /** The same with another bound on its bytes. */
  public LogConfig withRetentionBytes(long bytes) {
    return new LogConfig(durability, retention, bytes, replicas, fenced, revision, rule);
  }

  /** The same with another number of replicas. */
  public LogConfig withReplicas(int n) {
    return new LogConfig(durability, retention, retentionBytes, n, fenced, revision, rule);
  }

  /** The same, fenced or not. */
  public LogConfig withFenced(boolean yes) {
    return new LogConfig(durability, retention, retentionBytes, replicas, yes, revision, rule);
  }

  /** The same with another revision. */
  public LogConfig withRevision(long n) {
    return new LogConfig(durability, retention, retentionBytes, replicas, fenced, n, rule);
  }

  /** The same with another rule of its own; null: none is said. */
  public LogConfig withRule(PlacementRule r) {
    Optional<PlacementRule> other = Optional.ofNullable(r);
    return new LogConfig(durability, retention, retentionBytes, replicas, fenced, revision, other);
  }
}
