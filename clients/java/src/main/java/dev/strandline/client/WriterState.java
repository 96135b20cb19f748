package dev.strandline.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/**
 * Which program has the writer lease of a log.
 *
 * @param term the newest writer term of the log; it was granted with the lease, if that is held
 * @param waiting programs in line
 * @param holder the claim of the program that has the lease; empty: none has it, and the rest is
 *     empty too
 * @param since when the lease was granted, by the clock of the log's leader
 * @param left how long it lasts without another sign of life
 */
public record WriterState(
    long term,
    int waiting,
    Optional<WriterClaim> holder,
    Optional<Instant> since,
    Optional<Duration> left) {}
