package dev.strandline.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import dev.strandline.v1.Record;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;

/** What proves that a batch lies at its place in a log, and the records of the batch. */
final class Proof {
  private static final int HASH = 32;
  private static final int HEADER = 61; // of a batch
  private static final int CONTENT = 21; // where the content of a batch begins
  private static final int MAGIC = 2;
  // In its attributes: its records have the time when it was appended, its newest.
  private static final int LOG_APPEND_TIME = 8;
  private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

  private Proof() {}

  private static StrandlineException unproven(String message) {
    return new StrandlineException(Reason.UNPROVEN, message, Outcome.NOT_DONE);
  }

  /** Reads a hash of a digest. */
  static byte[] hash(String text) {
    try {
      byte[] hash = HexFormat.of().parseHex(text);
      if (hash.length == HASH) {
        return hash;
      }
    } catch (IllegalArgumentException e) {
      // It is none.
    }
    throw StrandlineException.invalid("the hash of a digest must have 64 hexadecimal digits");
  }

  private static byte[] sha256(byte[]... parts) {
    try {
      MessageDigest hash = MessageDigest.getInstance("SHA-256");
      for (byte[] part : parts) {
        hash.update(part);
      }
      return hash.digest();
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError(e); // every Java has it
    }
  }

  /**
   * Throws UNPROVEN unless a batch lies at its base offset in the log whose digest is root. The
   * hash covers all of the batch but its place, which the leaf has too.
   */
  static void check(
      ByteString batch, long number, long batches, List<ByteString> path, byte[] root) {
    boolean whole =
        batch.size() >= HEADER
            && batch.asReadOnlyByteBuffer().getInt(8) == batch.size() - 12
            && batch.byteAt(16) == MAGIC;
    if (!whole) {
      throw unproven("the server sent something other than a batch");
    }
    if (Long.compareUnsigned(number, batches) >= 0) {
      throw unproven("the server names batch " + number + " of " + batches);
    }
    byte[] content = sha256(batch.substring(CONTENT).toByteArray());
    byte[] found = sha256(new byte[] {0}, batch.substring(0, 8).toByteArray(), content);
    byte[] node = {1};
    long at = number; // as RFC 9162 walks up the tree
    long last = batches - 1;
    for (ByteString one : path) {
      byte[] beside = one.toByteArray();
      if (last == 0 || beside.length != HASH) {
        throw unproven("the proof has a wrong number of hashes");
      }
      if ((at & 1) == 1 || at == last) {
        found = sha256(node, beside, found);
        while ((at & 1) == 0 && at != 0) {
          at >>>= 1;
          last >>>= 1;
        }
      } else {
        found = sha256(node, found, beside);
      }
      at >>>= 1;
      last >>>= 1;
    }
    if (last != 0 || !MessageDigest.isEqual(found, root)) {
      long offset = batch.asReadOnlyByteBuffer().getLong(0);
      throw unproven("under the digest there is no such batch at offset " + offset);
    }
  }

  /** The record of a batch that has been proved. */
  static LogRecord record(ByteString batch, long offset) {
    ByteBuffer data = batch.asReadOnlyByteBuffer();
    long index = offset - data.getLong(0);
    if (index < 0 || index >= data.getInt(57)) {
      throw unproven("the server proved a different batch");
    }
    int codec = data.getShort(CONTENT) & 7;
    if (codec != 0) {
      String name = codec < CODECS.size() ? CODECS.get(codec) : "codec " + codec;
      throw new StrandlineException(
          Reason.UNSUPPORTED,
          "the proof is valid, but this client cannot decompress " + name,
          Outcome.NOT_DONE);
    }
    try {
      boolean appended = (data.getShort(CONTENT) & LOG_APPEND_TIME) != 0;
      long baseTime = data.getLong(27);
      long newest = data.getLong(35);
      data.position(HEADER);
      for (long n = 0; n < index; n++) {
        bytes(data, varint(data));
      }
      Record.Builder record = record(data, offset, baseTime);
      if (appended) {
        record.setTimestamp(moment(newest));
      }
      return new LogRecord(record.build());
    } catch (BufferUnderflowException e) {
      throw unproven("the records of the batch cannot be read");
    }
  }

  private static Timestamp moment(long millis) {
    return Timestamp.newBuilder()
        .setSeconds(Math.floorDiv(millis, 1000))
        .setNanos((int) Math.floorMod(millis, 1000L) * 1_000_000)
        .build();
  }

  private static Record.Builder record(ByteBuffer data, long offset, long baseTime) {
    varint(data); // the length
    data.get(); // attributes
    long time = baseTime + varint(data);
    varint(data); // the offset, from that of the batch
    Record.Builder record = Record.newBuilder().setOffset(offset).setTimestamp(moment(time));
    long key = varint(data);
    if (key >= 0) {
      record.setKey(bytes(data, key));
    }
    long value = varint(data);
    if (value >= 0) {
      record.setValue(bytes(data, value));
    }
    for (long left = varint(data); left > 0; left--) {
      dev.strandline.v1.Header.Builder header = record.addHeadersBuilder();
      header.setKey(bytes(data, varint(data)).toStringUtf8());
      long size = varint(data);
      if (size >= 0) {
        header.setValue(bytes(data, size));
      }
    }
    return record;
  }

  private static ByteString bytes(ByteBuffer data, long size) {
    if (size < 0 || size > data.remaining()) {
      throw new BufferUnderflowException();
    }
    return ByteString.copyFrom(data, (int) size);
  }

  private static long varint(ByteBuffer data) {
    long value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      byte b = data.get();
      value |= (b & 127L) << shift;
      if (b >= 0) {
        return (value >>> 1) ^ -(value & 1);
      }
    }
    throw new BufferUnderflowException();
  }
}
