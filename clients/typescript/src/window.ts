import type { Outcome, StrandlineError } from "./errors.js";
import type { CheckedAppend, Record as WireRecord } from "./generated/strandline/v1/log.js";

// The automatic window. Few small requests at a time make callers that wait for each append meet in one;
// many large ones fill a long link.
const manyRequests = 64;
const fewRequests = 4;
const largeRequest = 64 << 10;
const windowBytes = 16 << 20;

/** Who waits for one record. */
export interface Waiter {
  resolve(offset: number): void;
  reject(error: StrandlineError): void;
}

/** Records that travel together: accepted, closed, sent, perhaps sent again, and settled once. */
export class Request {
  readonly accepted = performance.now();
  readonly records: WireRecord[] = [];
  /** One for each record. */
  readonly waiters: Waiter[] = [];
  /** Who waits until it is settled, well or not. */
  readonly settled: (() => void)[] = [];
  expectedEnd: number | undefined;
  atomic = false;
  /** Without the records. */
  check: CheckedAppend | undefined;
  size = 0;
  /** It does not linger. */
  urgent = false;
  /**
   * accepted: it forms or is queued, and has no place in its session; in flight: it is in the window;
   * failed: it was settled with one in front of it, while its own answer is still to come.
   */
  state: "accepted" | "in flight" | "failed" = "accepted";
  /** With epoch and first: the place in the session, once in flight. */
  session = "";
  epoch = 0;
  first = 0;
  /** When it was first sent; 0: not yet. */
  sent = 0;
  /** Of all sendings that have ended. */
  outcome: Outcome = "not_done";

  get count(): number {
    return this.records.length;
  }
}

/**
 * The requests in flight, oldest first: those that were put, or are just being put, on a stream and have
 * no answer. A request enters before its first byte leaves.
 */
export class Window {
  flight: Request[] = [];
  /** How many of them are on the stream that is open now. */
  sent = 0;
  /** Nothing more is put on that stream. */
  held = false;
  #bytes = 0;

  constructor(
    private readonly requests?: number,
    private readonly most = windowBytes,
  ) {}

  /** Whether a request of that size may be sent now. One that is larger than the window goes alone. */
  admits(size: number): boolean {
    const n = this.flight.length;
    if (this.held) return false;
    if (n === 0) return true;
    if (n >= (this.requests ?? manyRequests) || this.#bytes + size > this.most) return false;
    return n < (this.requests ?? fewRequests) || size >= largeRequest;
  }

  push(r: Request): void {
    this.flight.push(r);
    this.#bytes += r.size;
  }

  /** The next request that has to be sent on this stream. */
  unsent(): Request | undefined {
    return this.held ? undefined : this.flight[this.sent];
  }

  /** The request that the next answer is for. */
  oldest(): Request | undefined {
    return this.sent > 0 ? this.flight[0] : undefined;
  }

  pop(): Request {
    const r = this.flight.shift() as Request;
    this.#bytes -= r.size;
    this.sent = Math.max(0, this.sent - 1);
    return r;
  }

  /** For a stream that has ended: all has to be sent again, but for what has failed already. */
  reset(): void {
    this.#keep(this.waiting());
    this.sent = 0;
    this.held = false;
  }

  /** Takes out what is not on the stream, marks the rest, and returns all that had not failed. */
  fail(): Request[] {
    const ended = this.waiting();
    this.#keep(this.flight.slice(0, this.sent));
    for (const r of this.flight) r.state = "failed";
    return ended;
  }

  #keep(requests: Request[]): void {
    this.flight = requests;
    this.#bytes = requests.reduce((sum, r) => sum + r.size, 0);
  }

  /** What has not failed. */
  waiting(): Request[] {
    return this.flight.filter((r) => r.state !== "failed");
  }

  /** The sequence below which all answers are there. */
  lowWater(): number {
    return this.flight.find((r) => r.state !== "failed")?.first ?? 0;
  }

  /** Whether a request may be in the log by an earlier sending. */
  doubtful(): boolean {
    return this.flight.some((r) => r.outcome !== "not_done" && r.state !== "failed");
  }
}
