package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.X509Certificate;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReloadedContextTest {
  @TempDir Path directory;

  /** A file with an authority of Java's own. */
  private Path authority() throws Exception {
    TrustManagerFactory known =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    known.init((KeyStore) null);
    X509Certificate one = ((X509TrustManager) known.getTrustManagers()[0]).getAcceptedIssuers()[0];
    String text = Base64.getMimeEncoder().encodeToString(one.getEncoded());
    return Files.writeString(
        directory.resolve("ca.crt"),
        "-----BEGIN CERTIFICATE-----\n" + text + "\n-----END CERTIFICATE-----\n");
  }

  @Test
  void aNodeThatTakesNoConnectionIsNotWaitedForUntilFilesAreReplaced() throws Exception {
    int port;
    try (ServerSocket gone = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = gone.getLocalPort();
    }
    Path file = authority();
    try (Client client =
        new Client(
            List.of("127.0.0.1:" + port),
            o -> o.tls(new Tls(file)).retryTime(Duration.ofMillis(300)))) {
      for (int i = 0; i < 2; i++) {
        ExecutionException failed =
            assertThrows(
                ExecutionException.class,
                () -> client.admin().info("orders").get(30, TimeUnit.SECONDS));
        StrandlineException why = (StrandlineException) failed.getCause();
        assertEquals(Reason.UNREACHABLE, why.reason());
        assertTrue(why.retryable());
        Files.writeString(file, Files.readString(file) + "\n"); // the second time it is another one
      }
    }
  }
}
