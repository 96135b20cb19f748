package dev.strandline.client;

import java.util.Map;
import java.util.TreeMap;

/**
 * Counts values in buckets that are an eighth of a power of two wide: a quantile is at most an
 * eighth too high.
 */
public final class Histogram {
  private final TreeMap<Long, Long> buckets; // by their highest values
  private long count;
  private long sum;

  Histogram() {
    buckets = new TreeMap<>();
  }

  /** A copy, which changes no more. */
  Histogram(Histogram other) {
    buckets = new TreeMap<>(other.buckets);
    count = other.count;
    sum = other.sum;
  }

  void record(long value) {
    count++;
    sum += value;
    buckets.merge(top(value), 1L, Long::sum);
  }

  /**
   * The highest value of a bucket: 0 to 15 have buckets of their own, and then eight values of the
   * highest four bits share each power of two.
   */
  private static long top(long value) {
    return value < 16 ? value : value | (1L << 60 - Long.numberOfLeadingZeros(value)) - 1;
  }

  /** How many values were counted. */
  public long count() {
    return count;
  }

  /** Of the values. */
  public long sum() {
    return sum;
  }

  /** 0 if nothing was counted. */
  public double mean() {
    return count == 0 ? 0 : (double) sum / count;
  }

  /**
   * A value that the share q (0 to 1) of the counted ones do not exceed; 0 if nothing was counted.
   */
  public long quantile(double q) {
    long rank = (long) (q * count);
    for (Map.Entry<Long, Long> bucket : buckets.entrySet()) {
      if (bucket.getValue() > rank) {
        return bucket.getKey();
      }
      rank -= bucket.getValue();
    }
    return buckets.isEmpty() ? 0 : buckets.lastKey();
  }
}
