package dev.strandline.client;

/**
 * Where a log starts and ends: offsets in [start, end) can be read.
 *
 * @param start the offset of the oldest record
 * @param end the offset after the newest record
 */
public record Extent(long start, long end) {}
