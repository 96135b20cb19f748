package dev.strandline.client;

import java.time.Duration;

/** How to connect: {@code new Client(addresses, o -> o.token("..."))}. */
public final class ClientOptions {
  Tls tls;
  boolean insecure;
  String token;
  Duration retryTime = Duration.ofSeconds(5);

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
   * Is sent with every call, as {@code authorization: Bearer}. One with a space or a line break,
   * which no header can carry, is refused with INVALID.
   */
  public ClientOptions token(String secret) {
    token = secret;
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
}
