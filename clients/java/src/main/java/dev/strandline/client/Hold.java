package dev.strandline.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;
import java.util.Optional;

/**
 * While it is there, nothing trims the records of its log from offset on. What is left out is as in
 * {@link #at}.
 *
 * @param name names it within its log: 1 to 128 bytes of text
 * @param offset the first record that is kept; {@link #FROM_START} and {@link #FROM_END} put it
 *     where the log starts, or ends, when it is set
 * @param owner for people: who to ask before it is released; at most 256 bytes
 * @param lease how long it stays without being set or kept; empty: until it is released
 * @param maxBytes once what it keeps takes more, the log's leader breaks it; 0: no bound
 * @param maxAge once the oldest record that it keeps is older, the log's leader breaks it
 * @param pointer where the state lies that the records below offset have made, for readers that
 *     come too late: up to 4 KiB that the log does not look at, and that need be no text
 * @param keptBytes what the records from offset on take; only {@link Admin#info} gives it
 * @param principal who set or moved it last, such as user/alice; only {@link Admin#info} gives it.
 *     Empty: the caller may not set holds of the log, or it is not known, as where rights are not
 *     enforced
 */
public record Hold(
    String name,
    long offset,
    String owner,
    Optional<Duration> lease,
    long maxBytes,
    Optional<Duration> maxAge,
    byte[] pointer,
    long keptBytes,
    String principal) {
  /** The offset where the log starts. */
  public static final long FROM_START = -2;

  /** The offset where the log ends. */
  public static final long FROM_END = -1;

  /** The pointer is copied. */
  public Hold {
    pointer = pointer.clone();
  }

  /** A copy of the pointer. */
  @Override
  public byte[] pointer() {
    return pointer.clone();
  }

  /** A hold without owner, lease, bounds and pointer. */
  public static Hold at(String name, long offset) {
    return new Hold(name, offset, "", Optional.empty(), 0, Optional.empty(), new byte[0], 0, "");
  }

  /** The same at another offset. */
  public Hold withOffset(long other) {
    return new Hold(name, other, owner, lease, maxBytes, maxAge, pointer, keptBytes, principal);
  }

  /** The same with an owner. */
  public Hold withOwner(String who) {
    return new Hold(name, offset, who, lease, maxBytes, maxAge, pointer, keptBytes, principal);
  }

  /** The same with a lease; null: none. */
  public Hold withLease(Duration d) {
    Optional<Duration> other = Optional.ofNullable(d);
    return new Hold(name, offset, owner, other, maxBytes, maxAge, pointer, keptBytes, principal);
  }

  /** The same with a bound on what it keeps. */
  public Hold withMaxBytes(long bytes) {
    return new Hold(name, offset, owner, lease, bytes, maxAge, pointer, keptBytes, principal);
  }

  /** The same with a bound on the age of what it keeps; null: none. */
  public Hold withMaxAge(Duration d) {
    Optional<Duration> other = Optional.ofNullable(d);
    return new Hold(name, offset, owner, lease, maxBytes, other, pointer, keptBytes, principal);
  }

  /** The same with a pointer. */
  public Hold withPointer(byte[] bytes) {
    return new Hold(name, offset, owner, lease, maxBytes, maxAge, bytes, keptBytes, principal);
  }

  /** The same with a pointer that is a text in UTF-8. */
  public Hold withPointer(String text) {
    return withPointer(text.getBytes(StandardCharsets.UTF_8));
  }

  /** Whether all is equal, the bytes of the pointer too. */
  @Override
  public boolean equals(Object other) {
    return other instanceof Hold h
        && name.equals(h.name)
        && offset == h.offset
        && owner.equals(h.owner)
        && lease.equals(h.lease)
        && maxBytes == h.maxBytes
        && maxAge.equals(h.maxAge)
        && Arrays.equals(pointer, h.pointer)
        && keptBytes == h.keptBytes
        && principal.equals(h.principal);
  }

  @Override
  public int hashCode() {
    return Objects.hash(
        name,
        offset,
        owner,
        lease,
        maxBytes,
        maxAge,
        Arrays.hashCode(pointer),
        keptBytes,
        principal);
  }
}
