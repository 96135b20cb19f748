package dev.strandline.client;

/**
 * One hash of all records of a log below an offset: equal on every replica, and in a copy that has
 * the same batches at the same offsets.
 *
 * @param hash in hexadecimal digits
 * @param at the offset as of which it is
 * @param from covered are the records from here to covered: whole batches. It is above 0 where the
 *     log has records of before there were digests
 * @param covered see from
 * @param batches how many it covers
 * @param start of the log, as the node that answered knew it
 * @param end of the log, as the node that answered knew it
 */
public record Digest(
    String hash, long at, long from, long covered, long batches, long start, long end) {
  /** A digest to prove records with, which was kept or comes from elsewhere. */
  public static Digest trusted(String hash, long at) {
    return new Digest(hash, at, 0, 0, 0, 0, 0);
  }
}
