package dev.strandline.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.function.BiConsumer;
import java.util.function.Supplier;

/** How to connect: {@code new Client(addresses, o -> o.token("..."))}. */
public final class ClientOptions {
  Tls tls;
  boolean insecure;
  Supplier<String> token; // null: none is shown
  Duration retryTime = Duration.ofSeconds(5);
  BiConsumer<String, Optional<StrandlineException>> onTrouble = (log, error) -> {};

  ClientOptions() {}

  /** Encrypts every connection. */
  public ClientOptions tls(Tls certificates) {
    tls = certificates;
    return this;
  }

  /** Allows addresses other than loopback without tls. */
  public ClientOptions insecure() {
    insecure = true;
    return this;
  }

  /**
   * Is sent with every call and stream, as {@code authorization: Bearer}; without tls in clear,
   * also to the addresses that insecure allows. An empty one, or one with a space or a line break,
   * which no header can carry, is refused with INVALID.
   */
  public ClientOptions token(String secret) {
    Token.check(secret);
    token = () -> secret;
    return this;
  }

  /**
   * The same with a function that is called for the token of each call and stream, from any thread.
   * It must return soon, and not wait. Where it throws, nothing is sent, and the call is tried
   * again as if no node could be reached. It is called again when a node refuses a token, which may
   * have expired while a stream was open: with another one producers, readers and calls continue.
   */
  public ClientOptions token(Supplier<String> give) {
    token = give;
    return this;
  }

  /**
   * The same with a token that is kept in a file, without the space around it. The file is read
   * again while calls are made, at most once a second, and when a node refuses the token, so that
   * it can be replaced. Where it cannot be read any more, the one read last is shown; a call is
   * INVALID if none has been read.
   */
  public ClientOptions tokenFile(Path file) {
    token = new Token.OfFile(file);
    return this;
  }

  /**
   * How long calls of Admin, and the opening of a producer or reader, go on looking for a node that
   * can answer (5 s); zero tries every address once.
   */
  public ClientOptions retryTime(Duration time) {
    retryTime = time;
    return this;
  }

  /**
   * Is called with a log and an error whenever a producer or reader of it cannot continue and tries
   * again, and with no error when it continues. It is called from any thread, and must return soon
   * and not wait for calls of the client.
   */
  public ClientOptions onTrouble(BiConsumer<String, Optional<StrandlineException>> handler) {
    onTrouble = handler;
    return this;
  }
}
