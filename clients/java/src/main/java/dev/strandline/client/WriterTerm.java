package dev.strandline.client;

/**
 * A writer's right to append, until somebody acquires a newer one.
 *
 * @param term for {@link ProducerOptions#writerTerm}
 * @param end the end of the log when the term began: every append of an older writer lies below
 */
public record WriterTerm(long term, long end) {}
