package dev.strandline.client;

import java.time.Duration;

/**
 * Makes appends at most once and in order. A producer opens and keeps its own.
 *
 * @param id its id, an unsigned number
 * @param epoch its epoch when it was opened
 * @param lease how long it lives without an append or {@link Admin#keepSession}
 * @param logId the log that it belongs to
 */
public record Session(long id, int epoch, Duration lease, long logId) {
  Session in(int newer) {
    return new Session(id, newer, lease, logId);
  }
}
