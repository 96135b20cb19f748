package dev.strandline.client;

import com.google.protobuf.ByteString;
import java.util.function.BiConsumer;

/**
 * Selects records at the server: those for which all conditions that are set hold. {@code
 * client.read("orders", o -> o.filter(f -> f.keyPrefix("eu/")))}.
 */
public final class Filter {
  final dev.strandline.v1.Filter.Builder wire = dev.strandline.v1.Filter.newBuilder();
  BiConsumer<Long, String> onFailed = (offset, why) -> {};

  Filter() {}

  /** The key is this one, or another one that is given. A record without a key has none. */
  public Filter key(byte[] key) {
    wire.addKeys(ByteString.copyFrom(key));
    return this;
  }

  /** The same of a text in UTF-8. */
  public Filter key(String key) {
    wire.addKeys(ByteString.copyFromUtf8(key));
    return this;
  }

  /** The key begins with this, or with another one that is given. */
  public Filter keyPrefix(byte[] prefix) {
    wire.addKeyPrefixes(ByteString.copyFrom(prefix));
    return this;
  }

  /** The same of a text in UTF-8. */
  public Filter keyPrefix(String prefix) {
    wire.addKeyPrefixes(ByteString.copyFromUtf8(prefix));
    return this;
  }

  /** A header of that name has that value. */
  public Filter header(String name, byte[] value) {
    wire.addHeaders(Wire.header(new Header(name, value)));
    return this;
  }

  /** An expression in CEL is true. A fault in it ends the read with FILTER_INVALID. */
  public Filter where(String expression) {
    wire.setWhere(expression);
    return this;
  }

  /**
   * Leaves out the records that the expression fails on, and is given the offset of each and why.
   * Without it the first one ends the read with FILTER_FAILED. After a connection was lost a record
   * may be named again.
   */
  public Filter skipFailed(BiConsumer<Long, String> report) {
    wire.setSkipFailed(true);
    onFailed = report;
    return this;
  }
}
