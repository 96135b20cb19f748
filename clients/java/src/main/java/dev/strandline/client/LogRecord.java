package dev.strandline.client;

import dev.strandline.v1.Record;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;

/** One record of a log. */
public final class LogRecord {
  private final Record wire;

  LogRecord(Record wire) {
    this.wire = wire;
  }

  /** Where it is in its log. */
  public long offset() {
    return wire.getOffset();
  }

  /** The producer's time, or the server's where it gave none. */
  public Instant timestamp() {
    return Wire.instant(wire.getTimestamp());
  }

  /** A copy of its key; null: it has none. */
  public byte[] key() {
    return wire.hasKey() ? wire.getKey().toByteArray() : null;
  }

  /** A copy of its value; null: it has none. */
  public byte[] value() {
    return wire.hasValue() ? wire.getValue().toByteArray() : null;
  }

  /** Its value as UTF-8; empty if it has none. */
  public String text() {
    return wire.getValue().toString(StandardCharsets.UTF_8);
  }

  /** Its value without a copy, read only; empty if it has none. */
  public ByteBuffer valueBuffer() {
    return wire.getValue().asReadOnlyByteBuffer();
  }

  /** Its headers, in their order. */
  public List<Header> headers() {
    return wire.getHeadersList().stream().map(Wire::header).toList();
  }

  /** About how many bytes it takes. */
  long size() {
    return Wire.sizeOf(wire);
  }

  @Override
  public String toString() {
    return "record at offset " + offset() + " of " + wire.getValue().size() + " bytes";
  }
}
