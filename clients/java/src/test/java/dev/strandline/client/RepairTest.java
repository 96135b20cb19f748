package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import dev.strandline.v1.AppendRequest;
import dev.strandline.v1.AppendResponse;
import dev.strandline.v1.CloseSessionResponse;
import dev.strandline.v1.OpenSessionResponse;
import dev.strandline.v1.Refusal;
import dev.strandline.v1.ResolveResponse;
import dev.strandline.v1.ResolveState;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A server that loses the first request of a producer and refuses the second, as the session has
 * ended. It says that the record is in the log at offset 7, once it may.
 */
@Timeout(60)
class RepairTest {
  private final CompletableFuture<Void> kept = new CompletableFuture<>();
  private final AtomicInteger streams = new AtomicInteger();
  private Server server;

  @BeforeEach
  void start() throws Exception {
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
            .addService(
                ServerServiceDefinition.builder("strandline.v1.LogService")
                    .addMethod(Methods.APPEND, ServerCalls.asyncBidiStreamingCall(this::append))
                    .build())
            .addService(
                ServerServiceDefinition.builder("strandline.v1.SessionService")
                    .addMethod(
                        Methods.OPEN_SESSION,
                        ServerCalls.asyncUnaryCall(
                            (q, to) ->
                                answer(
                                    to,
                                    OpenSessionResponse.newBuilder()
                                        .setSessionId(1)
                                        .setLogId(1)
                                        .build())))
                    .addMethod(
                        Methods.KEEP_SESSION,
                        ServerCalls.asyncUnaryCall(
                            (q, to) -> {
                              to.onError(expired());
                              kept.complete(null);
                            }))
                    .addMethod(
                        Methods.CLOSE_SESSION,
                        ServerCalls.asyncUnaryCall(
                            (q, to) -> answer(to, CloseSessionResponse.getDefaultInstance())))
                    .addMethod(
                        Methods.RESOLVE,
                        ServerCalls.asyncUnaryCall(
                            (q, to) -> kept.thenRunAsync(() -> resolve(to), later())))
                    .build())
            .build()
            .start();
  }

  @AfterEach
  void stop() throws Exception {
    server.shutdownNow().awaitTermination();
  }

  /** By then the client knows what was answered before. */
  private static java.util.concurrent.Executor later() {
    return CompletableFuture.delayedExecutor(100, TimeUnit.MILLISECONDS);
  }

  private static <A> void answer(StreamObserver<A> to, A answer) {
    to.onNext(answer);
    to.onCompleted();
  }

  private static void resolve(StreamObserver<ResolveResponse> to) {
    answer(
        to,
        ResolveResponse.newBuilder()
            .setState(ResolveState.RESOLVE_STATE_COMMITTED)
            .setOffset(7)
            .build());
  }

  private static StatusRuntimeException expired() {
    ErrorInfo info =
        ErrorInfo.newBuilder()
            .setReason("SESSION_EXPIRED")
            .setDomain("strandline.dev")
            .putMetadata("outcome", "not_done")
            .build();
    Metadata trailers = new Metadata();
    trailers.put(
        Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER),
        com.google.rpc.Status.newBuilder().addDetails(Any.pack(info)).build().toByteArray());
    return Status.FAILED_PRECONDITION.asRuntimeException(trailers);
  }

  private StreamObserver<AppendRequest> append(StreamObserver<AppendResponse> to) {
    boolean lost = streams.getAndIncrement() == 0;
    return new StreamObserver<>() {
      @Override
      public void onNext(AppendRequest request) {
        if (lost) {
          to.onError(Status.UNAVAILABLE.asRuntimeException());
          return;
        }
        to.onNext(
            AppendResponse.newBuilder()
                .setRefused(
                    Refusal.newBuilder()
                        .setReason("SESSION_EXPIRED")
                        .putMetadata("outcome", "not_done"))
                .build());
      }

      @Override
      public void onError(Throwable e) {}

      @Override
      public void onCompleted() {
        to.onCompleted();
      }
    };
  }

  @Test
  void whatIsInDoubtIsAskedForAlthoughTheRoundIsInterruptedMeanwhile() {
    try (Client client = new Client("127.0.0.1:" + server.getPort());
        Producer producer = client.producer("orders", o -> o.lease(Duration.ofMillis(1200)))) {
      assertEquals(7, producer.append("a").join());
    }
  }
}
