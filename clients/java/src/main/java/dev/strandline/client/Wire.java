package dev.strandline.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import dev.strandline.v1.Durability;
import dev.strandline.v1.LeaseWriterResponse;
import dev.strandline.v1.Record;
import dev.strandline.v1.ResolveResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** What the messages of the servers say, in the words of this package, and back. */
final class Wire {
  /** About what a record takes beside its key and value. */
  static final int OVERHEAD = 24;

  private Wire() {}

  /** About how many bytes a record takes on the wire. */
  static long sizeOf(Record record) {
    long size = OVERHEAD + record.getValue().size() + record.getKey().size();
    for (dev.strandline.v1.Header h : record.getHeadersList()) {
      size += 12 + 3L * h.getKey().length() + h.getValue().size();
    }
    return size;
  }

  static dev.strandline.v1.Header header(Header header) {
    dev.strandline.v1.Header.Builder wire =
        dev.strandline.v1.Header.newBuilder().setKey(header.key());
    if (header.value() != null) {
      wire.setValue(ByteString.copyFrom(header.value()));
    }
    return wire.build();
  }

  static Header header(dev.strandline.v1.Header wire) {
    return new Header(wire.getKey(), wire.hasValue() ? wire.getValue().toByteArray() : null);
  }

  /** The times that a message can hold: those of the years 1 to 9999. */
  private static final Instant FIRST = Instant.parse("0001-01-01T00:00:00Z");

  private static final Instant LAST = Instant.parse("9999-12-31T23:59:59.999999999Z");

  static Timestamp timestamp(Instant time) {
    if (time.isBefore(FIRST) || time.isAfter(LAST)) {
      throw StrandlineException.invalid("time " + time + ": it is not in the years 1 to 9999");
    }
    return Timestamp.newBuilder()
        .setSeconds(time.getEpochSecond())
        .setNanos(time.getNano())
        .build();
  }

  static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }

  static com.google.protobuf.Duration duration(Duration d) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(d.getSeconds())
        .setNanos(d.getNano())
        .build();
  }

  static Duration duration(com.google.protobuf.Duration d) {
    return Duration.ofSeconds(d.getSeconds(), d.getNanos());
  }

  private static Optional<Duration> duration(boolean there, com.google.protobuf.Duration d) {
    return there ? Optional.of(duration(d)) : Optional.empty();
  }

  static dev.strandline.v1.LogConfig config(LogConfig config) {
    boolean memory = config.durability() == LogConfig.Durability.MEMORY;
    dev.strandline.v1.LogConfig.Builder wire =
        dev.strandline.v1.LogConfig.newBuilder()
            .setDurability(memory ? Durability.DURABILITY_MEMORY : Durability.DURABILITY_DISK)
            .setRetentionBytes(config.retentionBytes())
            .setReplicas(config.replicas())
            .setFenced(config.fenced())
            .setRevision(config.revision());
    config.retention().ifPresent(d -> wire.setRetention(duration(d)));
    config.rule().ifPresent(r -> wire.setRule(rule(r)));
    return wire.build();
  }

  private static dev.strandline.v1.PlacementRule rule(PlacementRule rule) {
    dev.strandline.v1.PlacementRule.Builder wire =
        dev.strandline.v1.PlacementRule.newBuilder()
            .setSpread(rule.spread())
            .addAllVotersIn(rule.votersIn())
            .addAllVotersNotIn(rule.votersNotIn())
            .addAllLeaderHomes(rule.leaderHomes());
    rule.readReplicas()
        .forEach(r -> wire.addReadReplicasBuilder().setLabel(r.label()).setCount(r.count()));
    return wire.build();
  }

  private static PlacementRule rule(dev.strandline.v1.PlacementRule wire) {
    return new PlacementRule(
        wire.getSpread(),
        wire.getVotersInList(),
        wire.getVotersNotInList(),
        wire.getLeaderHomesList(),
        wire.getReadReplicasList().stream()
            .map(r -> new PlacementRule.ReadReplicas(r.getLabel(), r.getCount()))
            .toList());
  }

  static LogInfo info(dev.strandline.v1.LogInfo wire) {
    dev.strandline.v1.LogConfig c = wire.getConfig();
    boolean memory = c.getDurability() == Durability.DURABILITY_MEMORY;
    LogConfig config =
        new LogConfig(
            memory ? LogConfig.Durability.MEMORY : LogConfig.Durability.DISK,
            duration(c.hasRetention(), c.getRetention()),
            c.getRetentionBytes(),
            c.getReplicas(),
            c.getFenced(),
            c.getRevision(),
            c.hasRule() ? Optional.of(rule(c.getRule())) : Optional.empty());
    return new LogInfo(
        wire.getName(),
        wire.getId(),
        config,
        instant(wire.getCreated()),
        wire.getStartOffset(),
        wire.getEndOffset(),
        wire.getBytesUsed(),
        wire.getBytesFree(),
        wire.getWriterTerm(),
        wire.getOpenSessions(),
        wire.getLeader(),
        wire.getSealed(),
        wire.getProblem(),
        wire.getUnknown(),
        wire.getReplicasList().stream().map(Wire::replica).toList(),
        wire.getHoldsList().stream().map(Wire::hold).toList());
  }

  private static LogInfo.Replica replica(dev.strandline.v1.ReplicaAddress wire) {
    return new LogInfo.Replica(
        wire.getNode(),
        wire.getAddress(),
        wire.getLeader(),
        wire.getReadReplica(),
        List.copyOf(wire.getLabelsList()),
        wire.hasLag() ? OptionalLong.of(wire.getLag()) : OptionalLong.empty());
  }

  static dev.strandline.v1.Hold hold(Hold hold) {
    dev.strandline.v1.Hold.Builder wire =
        dev.strandline.v1.Hold.newBuilder()
            .setName(hold.name())
            .setOffset(Math.max(hold.offset(), 0))
            .setOwner(hold.owner())
            .setMaxBytes(hold.maxBytes())
            .setPointer(ByteString.copyFrom(hold.pointer()));
    hold.lease().ifPresent(d -> wire.setLease(duration(d)));
    hold.maxAge().ifPresent(d -> wire.setMaxAge(duration(d)));
    return wire.build();
  }

  static Hold hold(dev.strandline.v1.Hold wire) {
    return new Hold(
        wire.getName(),
        wire.getOffset(),
        wire.getOwner(),
        duration(wire.hasLease(), wire.getLease()),
        wire.getMaxBytes(),
        duration(wire.hasMaxAge(), wire.getMaxAge()),
        wire.getPointer().toByteArray(),
        wire.getKeptBytes(),
        wire.getPrincipal());
  }

  static WriterState writer(dev.strandline.v1.WriterState wire) {
    boolean held = !wire.getName().isEmpty();
    Optional<WriterClaim> holder =
        held
            ? Optional.of(
                new WriterClaim(
                    wire.getName(), duration(wire.getLease()), wire.getPayload().toByteArray()))
            : Optional.empty();
    return new WriterState(
        wire.getWriterTerm(),
        wire.getWaiting(),
        holder,
        held ? Optional.of(instant(wire.getSince())) : Optional.empty(),
        duration(held, wire.getLeft()));
  }

  static WriterGrant grant(LeaseWriterResponse wire) {
    return new WriterGrant(
        wire.getWriterTerm(), wire.getEndOffset(), wire.getLogId(), writer(wire.getState()));
  }

  static Resolution resolution(ResolveResponse wire) {
    Resolution.State state =
        switch (wire.getState()) {
          case RESOLVE_STATE_COMMITTED -> Resolution.State.COMMITTED;
          case RESOLVE_STATE_PENDING -> Resolution.State.PENDING;
          case RESOLVE_STATE_NOT_NOW -> Resolution.State.NOT_NOW;
          case RESOLVE_STATE_NEVER -> Resolution.State.NEVER;
          default -> Resolution.State.FORGOTTEN; // of a later version nothing is known
        };
    return new Resolution(
        state,
        wire.getOffset(),
        wire.getEpoch(),
        wire.hasNextSequence() ? OptionalLong.of(wire.getNextSequence()) : OptionalLong.empty());
  }
}
