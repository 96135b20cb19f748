package dev.strandline.client;

/**
 * The answer to a program that wants the writer lease.
 *
 * @param term the granted writer term, for {@link ProducerOptions#writerTerm}; 0: another program
 *     has the lease, see state
 * @param end the end of the log when the term began: all records of older writers are below it
 * @param logId the id of the log
 * @param state who has the lease now
 */
public record WriterGrant(long term, long end, long logId, WriterState state) {}
