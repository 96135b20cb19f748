package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

class ProofTest {
  private static final Path VECTOR = Path.of("../../internal/digest/testdata/vector.txt");

  private final List<ByteString> batches = new ArrayList<>();
  private final byte[] root;

  ProofTest() throws Exception {
    String digest = "";
    for (String line : Files.readAllLines(VECTOR)) {
      String[] words = line.split(" ");
      batches.add(ByteString.copyFrom(HexFormat.of().parseHex(words[0])));
      digest = words[1];
    }
    root = Proof.hash(digest);
  }

  private static ByteString sha256(ByteString... parts) throws Exception {
    MessageDigest hash = MessageDigest.getInstance("SHA-256");
    for (ByteString part : parts) {
      hash.update(part.asReadOnlyByteBuffer());
    }
    return ByteString.copyFrom(hash.digest());
  }

  private static ByteString bytes(int... values) {
    byte[] all = new byte[values.length];
    for (int i = 0; i < all.length; i++) {
      all[i] = (byte) values[i];
    }
    return ByteString.copyFrom(all);
  }

  private ByteString leaf(int n) throws Exception {
    ByteString batch = batches.get(n);
    return sha256(bytes(0), batch.substring(0, 8), sha256(batch.substring(21)));
  }

  private static ByteString node(ByteString left, ByteString right) throws Exception {
    return sha256(bytes(1), left, right);
  }

  private static ByteString flipped(ByteString batch, int at) {
    byte[] copy = batch.toByteArray();
    copy[at] ^= 1;
    return ByteString.copyFrom(copy);
  }

  private static void unproven(
      ByteString batch, long number, long batches, List<ByteString> path, byte[] root) {
    StrandlineException e =
        assertThrows(
            StrandlineException.class, () -> Proof.check(batch, number, batches, path, root));
    assertEquals(Reason.UNPROVEN, e.reason());
  }

  @Test
  void aBatchIsProvedAtItsPlaceAndNowhereElse() throws Exception {
    ByteString ab = node(leaf(0), leaf(1));
    ByteString cd = node(leaf(2), leaf(3));
    List<List<ByteString>> paths =
        List.of(
            List.of(leaf(1), cd, leaf(4)),
            List.of(leaf(0), cd, leaf(4)),
            List.of(leaf(3), ab, leaf(4)),
            List.of(leaf(2), ab, leaf(4)),
            List.of(node(ab, cd)));
    for (int n = 0; n < 5; n++) {
      ByteString batch = batches.get(n);
      List<ByteString> path = paths.get(n);
      Proof.check(batch, n, 5, path, root);
      unproven(batch.substring(0, 60), n, 5, path, root);
      unproven(flipped(batch, batch.size() - 1), n, 5, path, root);
      unproven(flipped(batch, 7), n, 5, path, root);
      unproven(flipped(batch, 11), n, 5, path, root);
      unproven(batch, (n + 1) % 5, 5, path, root);
      unproven(batch, n, 100, path, root);
      unproven(batch, 5, 5, path, root);
      unproven(batch, n, 5, path.subList(1, path.size()), root);
      List<ByteString> longer = new ArrayList<>(path);
      longer.add(leaf(0));
      unproven(batch, n, 5, longer, root);
      List<ByteString> cut = new ArrayList<>(path);
      cut.set(0, bytes(1, 2, 3));
      unproven(batch, n, 5, cut, root);
      unproven(batch, n, 5, path, leaf(0).toByteArray());
    }
  }

  @Test
  void theRecordOfABatchIsRead() {
    LogRecord record = Proof.record(batches.get(3), 8);
    assertEquals("batch 3, record 2", record.text());
    assertEquals("key", new String(record.key()));
    assertEquals(1_700_000_000_002L, record.timestamp().toEpochMilli());
    for (long offset : List.of(5L, 10L)) {
      StrandlineException e =
          assertThrows(StrandlineException.class, () -> Proof.record(batches.get(3), offset));
      assertEquals(Reason.UNPROVEN, e.reason());
    }
    byte[] appended = batches.get(3).toByteArray();
    appended[22] |= 8;
    ByteBuffer.wrap(appended).putLong(35, 1_700_000_009_000L);
    LogRecord late = Proof.record(ByteString.copyFrom(appended), 8);
    assertEquals(1_700_000_009_000L, late.timestamp().toEpochMilli());
    ByteString cut = batches.get(3).substring(0, 63);
    assertEquals(
        Reason.UNPROVEN,
        assertThrows(StrandlineException.class, () -> Proof.record(cut, 8)).reason());
    StrandlineException compressed =
        assertThrows(StrandlineException.class, () -> Proof.record(batches.get(2), 3));
    assertEquals(Reason.UNSUPPORTED, compressed.reason());
    assertTrue(compressed.getMessage().contains("gzip"));
    for (String wrong : List.of("", "00", "zz".repeat(32))) {
      assertThrows(StrandlineException.class, () -> Proof.hash(wrong));
    }
  }

  @Test
  void aQuantileIsAtMostAnEighthTooHigh() {
    Histogram histogram = new Histogram();
    assertEquals(0, histogram.quantile(0.5));
    assertEquals(0, histogram.mean());
    List<Long> values = new ArrayList<>();
    for (int n = 0; n < 1000; n++) {
      values.add((n * 7919L % 1000 + 1) << n % 40);
    }
    values.forEach(histogram::record);
    Collections.sort(values);
    Histogram copy = new Histogram(histogram);
    histogram.record(Long.MAX_VALUE);
    assertEquals(1000, copy.count());
    for (double q : List.of(0.0, 0.5, 0.9, 0.99, 1.0)) {
      long exact = values.get(Math.min(999, (int) (q * 1000)));
      long found = copy.quantile(q);
      assertTrue(exact <= found && found <= exact + exact / 8, q + ": " + exact + " " + found);
    }
  }
}
