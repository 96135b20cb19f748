package dev.strandline.client;

import com.google.protobuf.ByteString;
import dev.strandline.v1.CheckedAppend;

/**
 * A condition of an append on what is in the log: no record at offset {@link #since} or above, up
 * to the records that are appended, has one of the keys, a key that begins with one of the
 * prefixes, or one of the headers. At least one of them has to be given. {@code
 * producer.appendBatch(records, o -> o.check(c -> c.since(7).key("alice")))}.
 */
public final class Check {
  private final CheckedAppend.Builder wire = CheckedAppend.newBuilder();

  Check() {}

  /**
   * The offset up to which the caller has read: that of the last record that it has taken into
   * account, plus one. Without it the whole log is checked.
   */
  public Check since(long offset) {
    if (offset < 0) {
      throw StrandlineException.invalid("the offset of a check is negative");
    }
    wire.setSince(offset);
    return this;
  }

  /** No record has this key. */
  public Check key(byte[] key) {
    wire.addKeys(ByteString.copyFrom(key));
    return this;
  }

  /** The same of a text in UTF-8. */
  public Check key(String key) {
    wire.addKeys(ByteString.copyFromUtf8(key));
    return this;
  }

  /** No record has a key that begins with this. */
  public Check keyPrefix(byte[] prefix) {
    wire.addKeyPrefixes(ByteString.copyFrom(prefix));
    return this;
  }

  /** The same of a text in UTF-8. */
  public Check keyPrefix(String prefix) {
    wire.addKeyPrefixes(ByteString.copyFromUtf8(prefix));
    return this;
  }

  /** No record has a header of that name with that value. */
  public Check header(String name, byte[] value) {
    wire.addHeaders(Wire.header(new Header(name, value)));
    return this;
  }

  CheckedAppend toWire() {
    return wire.build();
  }
}
