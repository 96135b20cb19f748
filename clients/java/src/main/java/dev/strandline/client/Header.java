package dev.strandline.client;

/**
 * A named value beside a record.
 *
 * @param key its name
 * @param value null is Kafka's null, which differs from an empty one
 */
public record Header(String key, byte[] value) {}
