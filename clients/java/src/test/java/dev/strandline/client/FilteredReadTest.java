package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.ByteString;
import dev.strandline.v1.FailedRecord;
import dev.strandline.v1.ReadRequest;
import dev.strandline.v1.ReadResponse;
import dev.strandline.v1.Record;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Reads with a filter, of a server that gives frames as they are written here. */
@Timeout(60)
class FilteredReadTest {
  private final List<ReadRequest> asked = new CopyOnWriteArrayList<>();
  private final LinkedBlockingQueue<List<ReadResponse>> streams = new LinkedBlockingQueue<>();
  private Server server;
  private Client client;

  @BeforeEach
  void start() throws Exception {
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
            .addService(
                ServerServiceDefinition.builder("strandline.v1.LogService")
                    .addMethod(
                        Methods.READ,
                        ServerCalls.asyncServerStreamingCall(
                            (request, to) -> {
                              asked.add(request);
                              List<ReadResponse> frames = streams.remove();
                              frames.forEach(to::onNext);
                              if (streams.isEmpty()) {
                                to.onCompleted();
                              } else {
                                to.onError(Status.UNAVAILABLE.asRuntimeException());
                              }
                            }))
                    .build())
            .build()
            .start();
    client = new Client("127.0.0.1:" + server.getPort());
  }

  @AfterEach
  void stop() throws Exception {
    client.close();
    server.shutdownNow().awaitTermination();
  }

  /** A frame of [first, next) that holds records of the offsets. */
  private static ReadResponse frame(long first, long next, long... offsets) {
    ReadResponse.Builder frame =
        ReadResponse.newBuilder().setLogId(3).setFirstOffset(first).setNextOffset(next);
    for (long offset : offsets) {
      frame.addRecords(
          Record.newBuilder().setOffset(offset).setValue(ByteString.copyFromUtf8("r" + offset)));
    }
    return frame.setRecordCount(offsets.length).setEndOffset(99).build();
  }

  @Test
  void aReaderMovesOnWhereNothingIsSelectedAndContinuesThere() {
    ReadResponse failed =
        frame(20, 30, 25).toBuilder()
            .addFailed(FailedRecord.newBuilder().setOffset(21).setMessage("no JSON"))
            .build();
    streams.add(List.of(frame(0, 10, 2, 7), frame(10, 20)));
    streams.add(List.of(failed, failed));
    List<String> progress = new ArrayList<>();
    List<String> left = new ArrayList<>();
    List<Long> offsets = new ArrayList<>();
    try (Reader reader =
        client.read(
            "orders",
            o ->
                o.offset(0)
                    .filter(f -> f.keyPrefix("a").skipFailed((at, why) -> left.add(at + why)))
                    .projection(p -> p.withoutKey())
                    .onProgress((at, end) -> progress.add(at + " of " + end)))) {
      reader.forEach(record -> offsets.add(record.offset()));
      assertEquals(30, reader.offset().orElse(0));
    }
    assertEquals(List.of(2L, 7L, 25L), offsets);
    assertEquals(List.of("21no JSON"), left);
    assertEquals(List.of("10 of 99", "20 of 99", "30 of 99"), progress);
    assertEquals(20, asked.get(1).getOffset());
    assertEquals("a", asked.get(1).getFilter().getKeyPrefixes(0).toStringUtf8());
    assertEquals(true, asked.get(1).getProjection().getDropKey());
  }

  @Test
  void noRecordIsSkippedWhereAReportThrows() {
    streams.add(
        List.of(
            frame(0, 10, 2, 7).toBuilder()
                .addFailed(FailedRecord.newBuilder().setOffset(1).setMessage("no JSON"))
                .build()));
    try (Reader reader =
        client.read(
            "orders",
            o ->
                o.offset(0)
                    .filter(
                        f ->
                            f.skipFailed(
                                (at, why) -> {
                                  throw new IllegalStateException(why);
                                })))) {
      assertThrows(IllegalStateException.class, reader::read);
      assertEquals(2, reader.read().offset());
      assertEquals(7, reader.read().offset());
      assertNull(reader.read());
    }
  }

  @Test
  void aServerThatDoesNotKnowFiltersIsNotBelieved() {
    streams.add(List.of(frame(0, 0, 0).toBuilder().clearNextOffset().build()));
    try (Reader reader = client.read("orders", o -> o.filter(f -> f.key("a")))) {
      assertEquals(
          Reason.UNSUPPORTED, assertThrows(StrandlineException.class, reader::read).reason());
    }
  }

  @Test
  void aFrameThatEndsBeforeItBeginsIsAnError() {
    streams.add(List.of(frame(5, 4)));
    try (Reader reader = client.read("orders", o -> o.offset(5).filter(f -> f.key("a")))) {
      assertEquals(Reason.CORRUPT, assertThrows(StrandlineException.class, reader::read).reason());
    }
  }

  @Test
  void theEndOfAReadStays() {
    streams.add(List.of(frame(0, 3, 1)));
    try (Reader reader = client.read("orders", o -> o.filter(f -> f.where("size > 3")))) {
      assertEquals("r1", reader.read().text());
      assertNull(reader.read());
      assertNull(reader.read());
    }
  }
}
