package dev.strandline.client;

/**
 * A place in a session: what a program keeps to continue the session after a restart.
 *
 * @param logId the log, whatever has its name later
 * @param session the session's id, an unsigned number; 0: there is none
 * @param epoch the session's epoch
 * @param next the sequence of the record; of a producer, that of the record accepted next
 */
public record Position(long logId, long session, int epoch, long next) {}
