package dev.strandline.client;

import java.util.List;

/**
 * What of each record is not sent; it looks as if it had been appended without. {@code
 * client.read("orders", o -> o.projection(p -> p.withoutValue()))}.
 */
public final class Projection {
  final dev.strandline.v1.Projection.Builder wire = dev.strandline.v1.Projection.newBuilder();

  Projection() {}

  /** No key. */
  public Projection withoutKey() {
    wire.setDropKey(true);
    return this;
  }

  /** No value. */
  public Projection withoutValue() {
    wire.setDropValue(true);
    return this;
  }

  /** No headers. */
  public Projection withoutHeaders() {
    wire.setDropHeaders(true);
    return this;
  }

  /** So many bytes of the value at most. */
  public Projection valueBytes(long bytes) {
    wire.setValueBytes(bytes);
    return this;
  }

  /**
   * Of a value that is a JSON object only these fields: of an object in it, {@code a.b} is the
   * field b of a. Any other value becomes null.
   */
  public Projection jsonFields(String... fields) {
    wire.addAllJsonFields(List.of(fields));
    return this;
  }
}
