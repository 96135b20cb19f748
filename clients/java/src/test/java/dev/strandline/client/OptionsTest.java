package dev.strandline.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What cannot be right is refused where it is given, and what is right is not changed. */
class OptionsTest {
  private static final List<String> NOBODY = List.of("127.0.0.1:1");

  private static StrandlineException invalid(org.junit.jupiter.api.function.Executable doing) {
    StrandlineException e = assertThrows(StrandlineException.class, doing);
    assertEquals(Reason.INVALID, e.reason());
    assertEquals(Outcome.NOT_DONE, e.outcome());
    return e;
  }

  @Test
  void aTokenThatNoHeaderCanCarryIsRefusedAndNotShown() {
    for (String token : List.of("secret\n", "sec ret", "secret\r\n", "s\u00e9cret")) {
      StrandlineException e = invalid(() -> new Client(NOBODY, o -> o.token(token)));
      assertFalse(e.getMessage().contains("ret"), e.getMessage());
    }
  }

  @Test
  void aFunctionGivesTheTokenOfEachCall() {
    Iterator<String> tokens = List.of("one", "two", "line\nbreak").iterator();
    Token token = new Token(tokens::next);
    assertEquals("Bearer one", shown(token));
    assertEquals("Bearer two", shown(token));
    StrandlineException e = invalid(() -> shown(token));
    assertFalse(e.getMessage().contains("line\n"), e.getMessage());
    StrandlineException none = assertThrows(StrandlineException.class, () -> shown(token));
    assertEquals(Reason.UNREACHABLE, none.reason());
    assertEquals(Outcome.NOT_DONE, none.outcome());
  }

  /** The header of a call that is made with a token. */
  private static String shown(Token token) {
    return shown(token, CallOptions.DEFAULT);
  }

  private static String shown(Token token, CallOptions options) {
    Metadata sent = new Metadata();
    Channel channel =
        new Channel() {
          @Override
          public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> m, CallOptions o) {
            return new ClientCall<>() {
              @Override
              public void start(Listener<A> listener, Metadata headers) {
                sent.merge(headers);
              }

              @Override
              public void request(int count) {}

              @Override
              public void cancel(String message, Throwable cause) {}

              @Override
              public void halfClose() {}

              @Override
              public void sendMessage(Q message) {}
            };
          }

          @Override
          public String authority() {
            return "";
          }
        };
    ClientInterceptors.intercept(channel, token)
        .newCall(Methods.HEALTH, options)
        .start(new ClientCall.Listener<>() {}, new Metadata());
    return sent.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
  }

  @Test
  void aTokenInAFileIsShownWithoutItsLineBreakAndOutlivesTheFile(@TempDir Path directory)
      throws Exception {
    Path file = directory.resolve("token");
    Token.OfFile token = new Token.OfFile(file);
    invalid(token::get);
    Files.writeString(file, "one\n");
    assertEquals("one", token.get());
    Files.writeString(file, "two\n");
    assertEquals("one", token.get());
    assertEquals("two", token.anew());
    assertEquals("two", token.get());
    Files.delete(file);
    assertEquals("two", token.get());
    assertEquals("two", token.anew());
  }

  @Test
  void aTokenThatIsRefusedIsReplacedOnce() {
    Iterator<String> tokens = List.of("a", "b", "c", "d", "d", "d").iterator();
    Token token = new Token(tokens::next);
    Token.Shown shown = new Token.Shown();
    StrandlineException refused =
        new StrandlineException(Reason.UNAUTHENTICATED, "no", Outcome.NOT_DONE);
    assertFalse(shown.failure(refused).again(), "no token is shown");
    assertEquals("Bearer a", shown(token, shown.options()));
    StrandlineException renewed = shown.failure(refused); // another one is b
    assertTrue(renewed.again() && renewed.renewed() && !renewed.elsewhere());
    assertEquals("Bearer c", shown(token, shown.options()));
    shown.failure(new StrandlineException(Reason.UNREACHABLE, "", Outcome.NOT_DONE));
    assertFalse(shown.failure(refused).again(), "nothing has come since");
    assertTrue(shown.failure(refused).again()); // another one is d
    shown.failure(new StrandlineException(Reason.FULL, "", Outcome.NOT_DONE));
    assertEquals("Bearer d", shown(token, shown.options()));
    assertFalse(shown.failure(refused).again(), "there is no other token");
  }

  @Test
  void theEnvironmentSaysHowToConnect() {
    assertEquals(List.of("127.0.0.1:7171"), new Environment(Map.of()).addresses());
    Environment some = new Environment(Map.of("STRANDLINE_SERVER", "one:1, two:2"));
    assertEquals(List.of("one:1", "two:2"), some.addresses());
    ClientOptions options = new ClientOptions();
    new Environment(Map.of("STRANDLINE_INSECURE", "True", "STRANDLINE_TOKEN", "secret\n"))
        .configure(options);
    assertTrue(options.insecure);
    assertEquals("secret", options.token.get());
    for (String wrong : List.of("INSECURE", "TLS_CA", "TLS_KEY")) {
      invalid(() -> Client.fromEnvironment(Map.of("STRANDLINE_" + wrong, "maybe"), o -> {}));
    }
  }

  @Test
  void filesThatAreNoCertificatesAreRefused(@TempDir Path directory) throws Exception {
    Path text = Files.writeString(directory.resolve("text"), "no PEM");
    for (Tls tls :
        List.of(
            new Tls(text),
            new Tls(directory.resolve("missing")),
            new Tls(null, text, null),
            new Tls(null, null, text),
            new Tls(null, text, text))) {
      invalid(() -> new Client(NOBODY, o -> o.tls(tls)));
    }
  }

  @Test
  void timesThatNoMessageHoldsAreRefused() {
    for (Instant time :
        List.of(
            Instant.MAX,
            Instant.MIN,
            Instant.parse("+10000-01-01T00:00:00Z"),
            Instant.parse("0000-12-31T23:59:59Z"))) {
      invalid(() -> new NewRecord("v").timestamp(time));
    }
    new NewRecord("v").timestamp(Instant.parse("9999-12-31T23:59:59Z"));
    new NewRecord("v").timestamp(Instant.EPOCH.minusSeconds(1));
  }

  @Test
  void aStalenessThatNoNodeTakesIsRefused() {
    try (Client client = new Client(NOBODY, o -> {})) {
      invalid(() -> client.read("orders", o -> o.maxStaleness(Duration.ofMillis(99))));
      client.read("orders", o -> o.maxStaleness(Duration.ofMillis(100))).close();
    }
  }

  @Test
  void aPointerIsBytes() {
    byte[] bytes = {(byte) 0xff, (byte) 0xfe, 0, (byte) 0x80, 0x41};
    dev.strandline.v1.Hold wire =
        dev.strandline.v1.Hold.newBuilder().setPointer(ByteString.copyFrom(bytes)).build();
    assertArrayEquals(bytes, Wire.hold(wire).pointer());
    assertEquals(wire.getPointer(), Wire.hold(Wire.hold(wire)).getPointer());
    assertEquals(Wire.hold(wire), Wire.hold(wire));
    assertEquals(Wire.hold(wire).hashCode(), Wire.hold(wire).hashCode());
  }

  /** The name of the second is none that a resolver may know. */
  @Test
  void anErrorNamesWhyThereIsNoConnection() {
    for (List<String> c :
        List.of(List.of("127.0.0.1:1", "refused"), List.of("no.invalid:1", "name is not known"))) {
      try (Client client =
          new Client(List.of(c.get(0)), o -> o.insecure().retryTime(Duration.ZERO))) {
        Throwable failed =
            assertThrows(Exception.class, () -> client.admin().info("orders").join()).getCause();
        assertEquals(Reason.UNREACHABLE, ((StrandlineException) failed).reason());
        assertTrue(failed.getMessage().contains(c.get(1)), failed.getMessage());
      }
    }
  }
}
