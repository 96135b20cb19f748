package dev.strandline.client;

import java.time.Duration;

/** How a producer sends: {@code client.producer("orders", o -> o.linger(Duration.ofMillis(5)))}. */
public final class ProducerOptions {
  int maxInFlight;
  long maxInFlightBytes;
  long maxRequestBytes = 1 << 20;
  long bufferBytes = 64 << 20;
  Duration linger = Duration.ZERO;
  Duration lease = Duration.ofSeconds(60);
  long writerTerm;
  boolean session = true;
  Position resume;
  boolean endOnFailure;
  Duration recordTimeout = Duration.ofSeconds(30);
  Duration openTimeout;

  ProducerOptions() {}

  /**
   * Requests that wait for their answers, counted before the bytes leave; records that come while
   * all are out leave together. The default, 0: up to 4 of any size, and up to 64 of at least 64
   * KiB.
   */
  public ProducerOptions maxInFlight(int requests) {
    maxInFlight = requests;
    return this;
  }

  /** The same in bytes (16 MiB); a larger request goes alone. */
  public ProducerOptions maxInFlightBytes(long bytes) {
    maxInFlightBytes = bytes;
    return this;
  }

  /** Closes a request when the next record would make it larger (1 MiB). */
  public ProducerOptions maxRequestBytes(long bytes) {
    maxRequestBytes = bytes;
    return this;
  }

  /** Records that have been accepted and have no answer (64 MiB); beyond, appends wait. */
  public ProducerOptions bufferBytes(long bytes) {
    bufferBytes = bytes;
    return this;
  }

  /** Holds a request that is not full back for so long, for more records to join it (0). */
  public ProducerOptions linger(Duration time) {
    linger = time;
    return this;
  }

  /** How long the session outlives the last request (60 s). An idle producer renews it. */
  public ProducerOptions lease(Duration time) {
    lease = time;
    return this;
  }

  /** From {@link Admin#acquireWriter}: appends fail with FENCED once there is a newer one. */
  public ProducerOptions writerTerm(long term) {
    writerTerm = term;
    return this;
  }

  /** Every request is sent once; a lost answer is in doubt, and a refusal stands alone. */
  public ProducerOptions withoutSession() {
    session = false;
    return this;
  }

  /** Continues the session of an earlier producer where its position was. */
  public ProducerOptions resume(Position position) {
    resume = position;
    return this;
  }

  /**
   * The first record that fails ends the producer, so that each record has the sequence that its
   * position said.
   */
  public ProducerOptions endOnFailure() {
    endOnFailure = true;
    return this;
  }

  /** How long a record may be without an answer, re-sends included (30 s; zero: for ever). */
  public ProducerOptions recordTimeout(Duration time) {
    recordTimeout = time;
    return this;
  }

  /** Bounds the opening of the producer; the default is the client's retry time alone. */
  public ProducerOptions openTimeout(Duration time) {
    openTimeout = time;
    return this;
  }

  void check() {
    boolean positive =
        maxInFlight >= 0
            && maxInFlightBytes >= 0
            && maxRequestBytes > 0
            && bufferBytes > 0
            && lease.compareTo(Duration.ZERO) > 0
            && !linger.isNegative()
            && !recordTimeout.isNegative();
    if (!positive) {
      throw StrandlineException.invalid("a limit of the producer is not positive");
    }
    if (!session && resume != null) {
      throw StrandlineException.invalid("a producer without a session cannot resume one");
    }
  }
}
