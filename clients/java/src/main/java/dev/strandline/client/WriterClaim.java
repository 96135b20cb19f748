package dev.strandline.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;

/**
 * A program that wants the writer lease of a log.
 *
 * @param name tells the program from others that want the lease: 1 to 128 bytes of text. If the
 *     program that has the lease has this name, the lease passes to this one at once
 * @param lease how long the lease lasts without a sign of life of its holder, 1 s to 1 h
 * @param payload for those who watch, such as the address of the program: up to 4 KiB
 */
public record WriterClaim(String name, Duration lease, byte[] payload) {
  /** The payload is copied. */
  public WriterClaim {
    payload = payload.clone();
  }

  /** A claim without a payload. */
  public WriterClaim(String name, Duration lease) {
    this(name, lease, new byte[0]);
  }

  /** The same with a payload that is a text in UTF-8. */
  public WriterClaim withPayload(String text) {
    return new WriterClaim(name, lease, text.getBytes(StandardCharsets.UTF_8));
  }

  /** A copy of the payload. */
  @Override
  public byte[] payload() {
    return payload.clone();
  }

  /** Whether all is equal, the bytes of the payload too. */
  @Override
  public boolean equals(Object other) {
    return other instanceof WriterClaim c
        && name.equals(c.name)
        && lease.equals(c.lease)
        && Arrays.equals(payload, c.payload);
  }

  @Override
  public int hashCode() {
    return Objects.hash(name, lease, Arrays.hashCode(payload));
  }
}
