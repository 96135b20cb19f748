package dev.strandline.client;

/**
 * What a producer has done and is doing. Bytes are about those on the wire.
 *
 * @param inFlightRequests requests in the window without an answer
 * @param inFlightRecords their records
 * @param inFlightBytes their bytes
 * @param bufferedBytes all without an answer, which {@link ProducerOptions#bufferBytes} bounds
 * @param failed records that failed
 * @param resent requests that were sent again
 * @param streams that were opened
 * @param requestRecords records of each request that was appended: its count is how many requests,
 *     its sum how many records
 * @param requestBytes bytes of each request that was appended
 * @param latencyMicros microseconds from when a request was first sent to its answer
 */
public record Stats(
    int inFlightRequests,
    long inFlightRecords,
    long inFlightBytes,
    long bufferedBytes,
    long failed,
    long resent,
    long streams,
    Histogram requestRecords,
    Histogram requestBytes,
    Histogram latencyMicros) {}
