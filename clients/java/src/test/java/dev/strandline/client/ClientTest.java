package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Logger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** What needs no server. Everything else is in the scenarios, which the runner plays. */
@Timeout(60)
class ClientTest {
  private static StrandlineException failure(Executable call) {
    return StrandlineException.of(assertThrows(Throwable.class, call));
  }

  /** An address that takes connections and says nothing. */
  private static ServerSocket silent() throws IOException {
    return new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  }

  private static String address(ServerSocket socket) {
    return "127.0.0.1:" + socket.getLocalPort();
  }

  /** An address where nobody is. */
  private static String nobody() throws IOException {
    try (ServerSocket socket = silent()) {
      return address(socket);
    }
  }

  @Test
  void addressesOtherThanLoopbackNeedToBeAllowed() {
    for (String address :
        List.of("192.0.2.1:7171", "example.org:7171", "no address", "127.0.0.1", "127.0.0.1:x")) {
      assertEquals(Reason.INVALID, failure(() -> new Client(address)).reason(), address);
    }
    assertEquals(Reason.INVALID, failure(() -> new Client()).reason());
    new Client(List.of("192.0.2.1:7171"), o -> o.insecure()).close();
    new Client("[::1]:7171", "localhost:1", "127.9.9.9:1").close();
  }

  @Test
  void aClientThatFindsNobodySaysSoInTime() throws IOException {
    String address = nobody();
    try (Client client =
        new Client(List.of(address, address), o -> o.retryTime(Duration.ofMillis(200)))) {
      StrandlineException e = failure(() -> client.producer("orders"));
      assertEquals(Reason.UNREACHABLE, e.reason());
      assertEquals(Outcome.NOT_DONE, e.outcome());
      assertTrue(e.retryable());
      assertEquals(Reason.UNREACHABLE, failure(() -> client.read("orders").read()).reason());
    }
  }

  @Test
  void aNameThatIsNotKnownIsInTheErrorAndNotInTheLog() {
    Queue<String> logged = new ConcurrentLinkedQueue<>();
    Handler handler =
        new Handler() {
          @Override
          public void publish(java.util.logging.LogRecord record) {
            logged.add(record.getLevel() + " " + record.getMessage());
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    Logger all = Logger.getLogger("");
    all.addHandler(handler);
    try (Client client =
        new Client(
            List.of("nowhere.invalid:7171"),
            o -> o.insecure().retryTime(Duration.ofMillis(1500)))) {
      StrandlineException e = failure(() -> client.admin().info("orders").join());
      assertEquals(Reason.UNREACHABLE, e.reason());
      assertTrue(e.getMessage().contains("the name is not known: nowhere.invalid"), e.getMessage());
    } finally {
      all.removeHandler(handler);
    }
    assertEquals(List.of(), List.copyOf(logged));
  }

  @Test
  void aClosedClientSaysSo() throws IOException {
    Client client = new Client(nobody());
    client.close();
    assertEquals(Reason.CLOSED, failure(() -> client.admin().info("orders").join()).reason());
    assertEquals(Reason.CLOSED, failure(() -> client.read("orders").read()).reason());
  }

  @Test
  @SuppressWarnings("try") // closed twice
  void aCallEndsWithItsTimeItsFutureAndItsClient() throws Exception {
    try (ServerSocket socket = silent();
        Client client = new Client(address(socket))) {
      Admin admin = client.admin().within(Duration.ofMillis(100));
      assertEquals(Reason.CANCELLED, failure(() -> admin.info("orders").join()).reason());

      CompletableFuture<LogInfo> cancelled = client.admin().info("orders");
      cancelled.cancel(true);
      Reader reader = client.read("orders");
      assertEquals(Reason.CANCELLED, failure(() -> reader.read(Duration.ofMillis(50))).reason());

      CompletableFuture<LogInfo> closed = client.admin().info("orders");
      client.close();
      CompletionException e =
          assertThrows(
              CompletionException.class, () -> closed.orTimeout(50, TimeUnit.SECONDS).join());
      assertEquals(Reason.CLOSED, StrandlineException.of(e).reason());
    }
  }

  @Test
  void callsAtOnceHaveAsManyThreadsAsIsStated() throws Exception {
    try (ServerSocket socket = silent();
        Client client = new Client(address(socket))) {
      Set<Thread> before = Thread.getAllStackTraces().keySet();
      Admin admin = client.admin();
      for (int n = 0; n < Threads.CALLS + Threads.WAITING - 1; n++) {
        admin.info("orders");
      }
      CompletableFuture<LogInfo> last = admin.within(Duration.ofMillis(100)).info("orders");
      StrandlineException refused = failure(() -> admin.info("orders").join());
      assertEquals(Reason.BUSY, refused.reason());
      assertTrue(refused.retryable());
      // A call whose turn does not come ends with its time too, and nothing was done.
      StrandlineException late = failure(last::join);
      assertEquals(Reason.CANCELLED, late.reason());
      assertEquals(Outcome.NOT_DONE, late.outcome());
      long threads =
          Thread.getAllStackTraces().keySet().stream().filter(t -> !before.contains(t)).count();
      assertTrue(threads <= Threads.CALLS + 10, threads + " threads");
    }
  }

  @Test
  void aReaderIsClosedByAnotherThread() throws Exception {
    try (ServerSocket socket = silent();
        Client client = new Client(address(socket))) {
      Reader reader = client.read("orders");
      CompletableFuture<LogRecord> read = CompletableFuture.supplyAsync(reader::read);
      reader.close();
      assertEquals(
          Reason.CLOSED, failure(() -> read.orTimeout(50, TimeUnit.SECONDS).join()).reason());
    }
  }

  @Test
  void aClosedClientLeavesNoThreadsAndNoChannels() throws Exception {
    try (ServerSocket socket = silent()) {
      Set<Thread> before = Thread.getAllStackTraces().keySet();
      Client client =
          new Client(List.of(address(socket), nobody()), o -> o.retryTime(Duration.ofMillis(50)));
      assertThrows(StrandlineException.class, () -> client.producer("orders"));
      CompletableFuture<LogInfo> call = client.admin().info("orders");
      client.close();
      assertThrows(CompletionException.class, call::join);
      for (long began = System.nanoTime();
          !client.terminated() && System.nanoTime() - began < 50_000_000_000L; ) {
        Thread.sleep(10);
      }
      assertTrue(client.terminated());
      Set<Thread> left =
          Thread.getAllStackTraces().keySet().stream()
              .filter(t -> !before.contains(t) && t.getName().startsWith("strandline"))
              .collect(Collectors.toSet());
      for (Thread thread : left) {
        thread.join(50_000);
        assertTrue(!thread.isAlive(), thread.getName());
      }
    }
  }

  @Test
  void whatWaitsForItselfIsRefused() throws Exception {
    Threads threads = new Threads();
    CompletableFuture<Throwable> refused = new CompletableFuture<>();
    threads.onLoop(
        () ->
            refused.complete(
                assertThrows(IllegalStateException.class, () -> new Bound(null, null).await())));
    assertTrue(refused.get(50, TimeUnit.SECONDS).getMessage().contains("Async"));
    threads.close();
  }
}
