package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import dev.strandline.v1.Refusal;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class StrandlineExceptionTest {
  private static StrandlineException error(String domain) {
    ErrorInfo info =
        ErrorInfo.newBuilder()
            .setReason("FENCED")
            .setDomain(domain)
            .putMetadata("writer_term", "4")
            .putMetadata("outcome", "not_done")
            .build();
    Metadata trailers = new Metadata();
    trailers.put(
        Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER),
        com.google.rpc.Status.newBuilder().addDetails(Any.pack(info)).build().toByteArray());
    return StrandlineException.of(
        new CompletionException(
            new StatusRuntimeException(Status.UNAVAILABLE.withDescription("words"), trailers)));
  }

  @Test
  void theFactsOfAStatusAreRead() {
    StrandlineException e = error("strandline.dev");
    assertEquals(Reason.FENCED, e.reason());
    assertEquals("words", e.getMessage());
    assertEquals(4, e.writerTerm());
    assertEquals(Outcome.NOT_DONE, e.outcome());
    assertFalse(e.retryable());
  }

  @Test
  void whatIsNotFromALogMayBeDone() {
    StrandlineException e = error("example.org");
    assertEquals(Reason.UNREACHABLE, e.reason());
    assertEquals(Outcome.MAYBE_DONE, e.outcome());
    assertTrue(e.retryable());
  }

  @Test
  void bytesOfSomebodyElseAreNoDetails() {
    Metadata trailers = new Metadata();
    trailers.put(
        Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER),
        new byte[] {7, 7, 7});
    assertEquals(Reason.UNREACHABLE, StrandlineException.of(Status.INTERNAL, trailers).reason());
  }

  @Test
  void whatARefusalLeavesOutIsAssumedToBeBad() {
    StrandlineException e =
        StrandlineException.of(
            Refusal.newBuilder()
                .setReason("OF_A_LATER_VERSION")
                .putMetadata("end_offset", "no number")
                .build());
    assertEquals(Reason.OTHER, e.reason());
    assertEquals("OF_A_LATER_VERSION", e.reasonName());
    assertFalse(e.retryable());
    assertEquals(Outcome.MAYBE_DONE, e.outcome());
    assertEquals(0, e.endOffset());
  }

  @Test
  void everyReasonOfThePageOnErrorsIsKnown() throws IOException {
    Set<Reason> listed = EnumSet.of(Reason.OTHER);
    Matcher row =
        Pattern.compile("(?m)^\\| `([A-Z_]+)` \\|")
            .matcher(Files.readString(Path.of("../../docs/errors.md")));
    while (row.find()) {
      Reason reason = Reason.named(row.group(1));
      assertTrue(reason != Reason.OTHER, row.group(1));
      listed.add(reason);
    }
    assertEquals(EnumSet.allOf(Reason.class), listed);
  }
}
