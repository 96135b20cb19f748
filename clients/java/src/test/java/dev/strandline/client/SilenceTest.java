package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.strandline.v1.GetInfoResponse;
import dev.strandline.v1.ListLogsResponse;
import dev.strandline.v1.LogInfo;
import dev.strandline.v1.OpenSessionResponse;
import dev.strandline.v1.ReadResponse;
import io.grpc.Server;
import io.grpc.ServerMethodDefinition;
import io.grpc.ServerServiceDefinition;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A leader that stands still, with connections that stay, and another node that leads by now. */
@Timeout(60)
class SilenceTest {
  private final AtomicBoolean slow = new AtomicBoolean();
  private Server paused;
  private Server next;
  private Client client;

  @BeforeEach
  void start() throws Exception {
    paused = serve(false);
    next = serve(true);
    client = new Client(List.of(address(paused), address(next)), o -> {});
    client.calls().suspectAfter = Duration.ofMillis(50);
    client.calls().answerPatience = Duration.ofMillis(500);
  }

  @AfterEach
  void stop() throws Exception {
    client.close();
    paused.shutdownNow().awaitTermination();
    next.shutdownNow().awaitTermination();
  }

  private static String address(Server server) {
    return "127.0.0.1:" + server.getPort();
  }

  private Server serve(boolean answers) throws Exception {
    return NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
        .addService(
            ServerServiceDefinition.builder("strandline.v1.LogService")
                .addMethod(
                    Methods.GET_INFO,
                    ServerCalls.asyncUnaryCall(
                        (q, to) -> {
                          if (answers || slow.get() && q.getAllowStale()) {
                            answer(to, GetInfoResponse.newBuilder().setInfo(info()).build());
                          } else if (slow.get()) {
                            client.calls().threads.later(() -> answer(to, late()), 1_500_000_000);
                          }
                        }))
                .addMethod(
                    Methods.READ,
                    ServerCalls.asyncServerStreamingCall(
                        (q, to) -> {
                          if (answers) {
                            answer(to, ReadResponse.newBuilder().setLogId(1).build());
                          }
                        }))
                .build())
        .addService(
            ServerServiceDefinition.builder("strandline.v1.SessionService")
                .addMethod(
                    Methods.OPEN_SESSION,
                    ServerCalls.asyncUnaryCall(
                        (q, to) -> {
                          if (answers) {
                            answer(to, OpenSessionResponse.newBuilder().setSessionId(7).build());
                          }
                        }))
                .build())
        .addService(
            ServerServiceDefinition.builder("strandline.v1.CatalogService")
                .addMethod(
                    Methods.LIST_LOGS,
                    ServerCalls.asyncUnaryCall(
                        (q, to) -> {
                          if (answers) {
                            answer(to, ListLogsResponse.getDefaultInstance());
                          }
                        }))
                .build())
        .addService(
            ServerServiceDefinition.builder("grpc.health.v1.Health")
                .addMethod(
                    ServerMethodDefinition.create(
                        Methods.HEALTH,
                        ServerCalls.asyncUnaryCall(
                            (q, to) -> {
                              if (answers) {
                                answer(to, com.google.protobuf.Empty.getDefaultInstance());
                              }
                            })))
                .build())
        .build()
        .start();
  }

  /** The first leads where it answers, in a newer term; else the second does. */
  private LogInfo info() {
    return LogInfo.newBuilder()
        .setId(1)
        .setLeader(address(slow.get() ? paused : next))
        .setLeaderTerm(2)
        .build();
  }

  private static GetInfoResponse late() {
    return GetInfoResponse.newBuilder().setInfo(LogInfo.newBuilder().setId(5)).build();
  }

  private static <A> void answer(StreamObserver<A> to, A answer) {
    to.onNext(answer);
    to.onCompleted();
  }

  @Test
  void callsAndReadersLeaveALeaderThatStandsStill() {
    Admin admin = client.admin().within(Duration.ofSeconds(10));
    assertEquals(7, admin.openSession("orders", null).join().id());
    assertEquals(1, admin.info("others").join().id());
    assertTrue(admin.listLogs().join().isEmpty());
    try (Reader reader = client.read("yet others")) {
      assertEquals(null, reader.read(Duration.ofSeconds(10)));
      assertEquals(1, reader.logId());
    }
  }

  @Test
  void aNodeThatIsOnlySlowIsWaitedFor() {
    slow.set(true);
    assertEquals(5, client.admin().info("orders").join().id());
  }
}
