package dev.strandline.client;

import com.google.protobuf.ByteString;
import dev.strandline.v1.Record;
import java.nio.charset.StandardCharsets;
import java.time.Instant;

/**
 * What is appended: a value, and as far as wanted a key, headers and a time. A key or value that is
 * null is Kafka's null, which differs from an empty one. The bytes are copied.
 */
public final class NewRecord {
  /**
   * Bounds one record: its key, value and headers together. It also bounds what {@link
   * Producer#appendBatch} takes.
   */
  public static final int MAX_BYTES = 16 << 20;

  private final Record.Builder wire = Record.newBuilder();

  /** A record of a value. */
  public NewRecord(byte[] value) {
    if (value != null) {
      wire.setValue(ByteString.copyFrom(value));
    }
  }

  /** A record of a text in UTF-8. */
  public NewRecord(String value) {
    this(value.getBytes(StandardCharsets.UTF_8));
  }

  /** Sets the key. */
  public NewRecord key(byte[] key) {
    wire.setKey(ByteString.copyFrom(key));
    return this;
  }

  /** Sets the key to a text in UTF-8. */
  public NewRecord key(String key) {
    return key(key.getBytes(StandardCharsets.UTF_8));
  }

  /** Adds a header. */
  public NewRecord header(String key, byte[] value) {
    wire.addHeaders(Wire.header(new Header(key, value)));
    return this;
  }

  /**
   * Sets the producer's time, of the years 1 to 9999; the server's stands where it is left out. One
   * of another year is refused with INVALID.
   */
  public NewRecord timestamp(Instant time) {
    wire.setTimestamp(Wire.timestamp(time));
    return this;
  }

  Record toWire() {
    return wire.build();
  }
}
