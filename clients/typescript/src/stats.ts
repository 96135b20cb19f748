/** Counts values in buckets that are an eighth of a power of two wide: a quantile is at most an eighth too high. */
export class Histogram {
  /** Of the values. */
  count = 0;
  sum = 0;
  readonly #buckets = new Map<number, number>(); // by their highest values

  /** @internal */
  record(value: number): void {
    this.count++;
    this.sum += value;
    const top = topOf(value);
    this.#buckets.set(top, (this.#buckets.get(top) ?? 0) + 1);
  }

  /** @internal */
  copy(): Histogram {
    const copy = Object.assign(new Histogram(), { count: this.count, sum: this.sum });
    for (const [top, n] of this.#buckets) copy.#buckets.set(top, n);
    return copy;
  }

  /** 0 if nothing was counted. */
  get mean(): number {
    return this.count === 0 ? 0 : this.sum / this.count;
  }

  /** A value that the share q (0 to 1) of the counted ones do not exceed; 0 if nothing was counted. */
  quantile(q: number): number {
    let rank = Math.floor(q * this.count);
    let highest = 0;
    for (const [top, n] of [...this.#buckets].sort(([a], [b]) => a - b)) {
      highest = top;
      if (n > rank) break;
      rank -= n;
    }
    return highest;
  }
}

/**
 * The highest value of a bucket: 0 to 15 have buckets of their own, and then eight values of the highest four bits
 * share each power of two.
 */
function topOf(value: number): number {
  if (value < 16) return value;
  const width = 2 ** (Math.floor(Math.log2(value)) - 3);
  return (Math.floor(value / width) + 1) * width - 1;
}

/** What a producer has done and is doing. Bytes are about those on the wire. */
export interface Stats {
  /** In the window without an answer, as inFlightRecords and inFlightBytes. */
  inFlightRequests: number;
  inFlightRecords: number;
  inFlightBytes: number;
  /** All without an answer, which bufferBytes bounds. */
  bufferedBytes: number;
  /** Appended, as records and bytes. */
  requests: number;
  records: number;
  bytes: number;
  /** Records that failed. */
  failed: number;
  /** Requests that were sent again. */
  resent: number;
  /** Streams that were opened. */
  streams: number;
  /** Of each request that was appended: its records, its bytes, and the microseconds from when it was first sent. */
  requestRecords: Histogram;
  requestBytes: Histogram;
  latencyMicros: Histogram;
}

/** The part of Stats that only grows. */
export class Counts {
  failed = 0;
  resent = 0;
  streams = 0;
  readonly requestRecords = new Histogram();
  readonly requestBytes = new Histogram();
  readonly latencyMicros = new Histogram();

  appended(records: number, bytes: number, ms: number): void {
    this.requestRecords.record(records);
    this.requestBytes.record(bytes);
    this.latencyMicros.record(Math.max(0, Math.floor(ms * 1000)));
  }
}
