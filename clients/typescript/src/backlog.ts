import { placed, span, whole } from "./check.js";
import { behind, closed, invalid, type Position, StrandlineError } from "./errors.js";
import type { Record as WireRecord } from "./generated/strandline/v1/log.js";
import { Queue } from "./queue.js";
import { maxRecordBytes, payload, type Session, sizeOf } from "./records.js";
import { Counts, type Stats } from "./stats.js";
import { Request, type Waiter, Window } from "./window.js";

/** How a producer sends. */
export interface ProducerOptions {
  /**
   * Requests that wait for their answers, counted before the bytes leave; records that come while all are
   * out leave together. The default: up to 4 of any size, and up to 64 of at least 64 KiB.
   */
  maxInFlight?: number | undefined;
  /** The same in bytes (16 MiB); a larger request goes alone. */
  maxInFlightBytes?: number | undefined;
  /** Closes a request when the next record would make it larger (1 MiB). */
  maxRequestBytes?: number | undefined;
  /**
   * Records that have been accepted and have no answer (64 MiB). Beyond, appends wait, four times as much at
   * most, in which each counts with about the memory that it takes; then they fail with BUSY.
   */
  bufferBytes?: number | undefined;
  /** Holds a request that is not full back for so long, for more records to join it (0). */
  lingerMs?: number | undefined;
  /** How long the session outlives the last request (60 s). An idle producer renews it. */
  leaseMs?: number | undefined;
  /** From {@link Admin.acquireWriter}: appends fail with FENCED once there is a newer one. */
  writerTerm?: number | undefined;
  /** false: every request is sent once; a lost answer is in doubt, and a refusal stands alone. */
  session?: boolean | undefined;
  /** Continues the session of an earlier producer where its position was. */
  resume?: Position | undefined;
  /** The first record that fails ends the producer, so that each record has the sequence that its position said. */
  endOnFailure?: boolean | undefined;
  /** How long a record may be without an answer, re-sends included (30 s; 0: for ever). */
  recordTimeoutMs?: number | undefined;
}

export type Options = ReturnType<typeof complete>;

/** Fills in what was left out. */
export function complete(given: ProducerOptions) {
  const o = {
    maxInFlight: given.maxInFlight,
    maxInFlightBytes: given.maxInFlightBytes,
    maxRequestBytes: given.maxRequestBytes ?? 1 << 20,
    bufferBytes: given.bufferBytes ?? 64 << 20,
    lingerMs: given.lingerMs ?? 0,
    leaseMs: given.leaseMs ?? 60_000,
    writerTerm: given.writerTerm ?? 0,
    session: given.session ?? true,
    resume: given.resume,
    endOnFailure: given.endOnFailure ?? false,
    recordTimeoutMs: given.recordTimeoutMs ?? 30_000,
  };
  span("leaseMs", o.leaseMs);
  whole("writerTerm", o.writerTerm);
  if (o.resume) placed(o.resume);
  const positive = [o.maxInFlight ?? 1, o.maxInFlightBytes ?? 1, o.maxRequestBytes, o.bufferBytes];
  if (!(Math.min(...positive) > 0 && o.lingerMs >= 0 && o.recordTimeoutMs >= 0)) {
    throw invalid("a limit of the producer is not positive");
  }
  if (!o.session && o.resume) throw invalid("a producer without a session cannot resume one");
  return o;
}

/** Why a stream ended or must end. */
export interface Interruption {
  error: StrandlineError;
  /** Whose answer it was. */
  refused?: Request;
}

/** Who waits for room. */
interface Waiting {
  size: number;
  records: number;
  end: (error?: StrandlineError) => void;
  signal: AbortSignal | undefined;
}

/** How many times bufferBytes may wait for room. */
const waitingBuffers = 4;

/**
 * About how many bytes of memory a record that waits takes beside its own: its promise, its functions and its
 * place in the line. They count, too, as soon as there are as many as leastWaiting.
 */
const waitingOverhead = 1000;
const leastWaiting = 1000;

/** Where a record is: in which request, and its index there. */
export type Placed = [request: Request, index: number];

/** Requests from the one that is forming to those in flight, and the session that numbers them. */
export class Backlog {
  readonly window: Window;
  /** Takes records. */
  forming: Request | undefined;
  /** Full, not sent yet; oldest first. */
  readonly queue = new Queue<Request>();
  /** Why nothing is accepted any more. */
  ended: StrandlineError | undefined;
  session: Session | undefined;
  /** Sequence of the next record of a batch to be closed. */
  next = 0;
  logId = 0;
  /** When the log last answered. */
  lastSign = performance.now();
  /** Called when there is something to send. */
  onChange = () => {};
  #buffered = 0;
  /** What has been done. */
  readonly counts = new Counts();
  /** Those who wait for room: first come, first served. */
  readonly #waiting = new Queue<Waiting>();
  #waitingBytes = 0;
  #waitingRecords = 0;
  #closing = false;
  readonly #requestBytes: number;

  constructor(readonly options: Options) {
    this.window = new Window(options.maxInFlight, options.maxInFlightBytes);
    this.#requestBytes = Math.min(options.maxRequestBytes, options.bufferBytes, maxRecordBytes);
  }

  /** Puts a record into a request, once there is room. */
  add(record: WireRecord, waiter: Waiter, placed?: (at: Placed) => void, signal?: AbortSignal): void {
    const size = sizeOf(record);
    const large = tooLarge(payload(size, 1));
    if (large) return waiter.reject(large);
    this.#whenRoom(size, 1, signal, (refused) => {
      if (refused) return waiter.reject(refused);
      if (this.forming && this.forming.size + size > this.#requestBytes) this.#enqueueForming();
      this.forming ??= new Request();
      const r = this.forming;
      r.size += size;
      r.waiters.push(waiter);
      r.records.push(record);
      placed?.([r, r.count - 1]);
      this.#accepted(size);
    });
  }

  /** Puts a request of its own behind what was accepted before, once there is room. */
  addRequest(r: Request, placed?: (at: Placed) => void, signal?: AbortSignal): void {
    r.size = r.records.reduce((sum, record) => sum + sizeOf(record), 0);
    const reject = (error: StrandlineError) => {
      for (const waiter of r.waiters) waiter.reject(error);
    };
    const large = tooLarge(payload(r.size, r.count));
    if (large) return reject(large);
    this.#whenRoom(r.size, r.count, signal, (refused) => {
      if (refused) return reject(refused);
      this.#enqueueForming();
      this.queue.push(r);
      placed?.([r, 0]);
      this.#accepted(r.size);
    });
  }

  /** Resolves when a record would be accepted at once. */
  ready(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#whenRoom(1, 1, undefined, (refused) => (refused ? reject(refused) : resolve()));
    });
  }

  #enqueueForming(): void {
    if (this.forming) this.queue.push(this.forming);
    this.forming = undefined;
  }

  #accepted(size: number): void {
    this.#buffered += size;
    this.onChange();
  }

  #hasRoom(size: number): boolean {
    return this.#buffered === 0 || this.#buffered + size <= this.options.bufferBytes;
  }

  #whenRoom(
    size: number,
    records: number,
    signal: AbortSignal | undefined,
    end: (error?: StrandlineError) => void,
  ): void {
    if (this.ended || this.#closing) end(this.ended?.but({}) ?? closed("producer"));
    else if (this.#waiting.length === 0 && this.#hasRoom(size)) end();
    else if (this.#tooMuchWaits(size, records)) {
      const message = "as many records wait for room as may: await ready() now and then";
      end(new StrandlineError("BUSY", message, { retryable: true }));
    } else this.#wait({ size, records, end, signal });
  }

  #tooMuchWaits(size: number, records: number): boolean {
    if (this.#waitingBytes === 0) return false;
    const most = waitingBuffers * this.options.bufferBytes;
    const bytes = this.#waitingBytes + size;
    const count = this.#waitingRecords + records;
    return bytes > most || (count > leastWaiting && bytes + count * waitingOverhead > most);
  }

  #wait(one: Waiting): void {
    this.#waiting.push(one);
    this.#waitingBytes += one.size;
    this.#waitingRecords += one.records;
  }

  #admit(): void {
    for (let first = this.#waiting.first; first; first = this.#waiting.first) {
      const gaveUp = first.signal?.aborted;
      if (!gaveUp && !this.ended && !this.#hasRoom(first.size)) return;
      this.#waiting.shift();
      this.#waitingBytes -= first.size;
      this.#waitingRecords -= first.records;
      if (!gaveUp) first.end(this.ended?.but({}));
    }
  }

  /** Calls back when all that was given before has its answer, good or bad; it does not linger. */
  flush(done: () => void): void {
    const admitted = () => {
      const last = this.newest();
      if (!last) return done();
      last.urgent = true;
      last.settled.push(done);
      this.onChange();
    };
    if (this.#waiting.length === 0) return admitted();
    if (this.forming) this.forming.urgent = true;
    this.#wait({ size: 0, records: 0, end: admitted, signal: undefined });
    this.onChange();
  }

  #release(r: Request): void {
    this.#buffered -= r.size;
    this.#admit();
  }

  /** The oldest request that is not in the window. */
  candidate(): Request | undefined {
    return this.queue.first ?? this.forming;
  }

  /** The request that was accepted last and has not been settled. */
  newest(): Request | undefined {
    return this.forming ?? this.queue.last ?? this.window.waiting().at(-1);
  }

  /** The request that has waited longest for its answer. */
  oldest(): Request | undefined {
    return this.window.waiting()[0] ?? this.candidate();
  }

  /** Moves the candidate into the window and numbers its records. */
  closeBatch(): Request {
    const r = this.queue.shift() ?? (this.forming as Request);
    if (r === this.forming) this.forming = undefined;
    r.state = "in flight";
    if (this.session) {
      Object.assign(r, { session: this.session.id, epoch: this.session.epoch, first: this.next });
      this.next += r.count;
    }
    this.window.push(r);
    return r;
  }

  /** Takes the oldest request in flight out of the window. */
  leave(): void {
    const r = this.window.pop();
    this.lastSign = performance.now();
    if (r.state !== "failed") this.#release(r);
    this.onChange();
  }

  /** What has been done and is under way. */
  stats(): Stats {
    const { failed, resent, streams, requestRecords, requestBytes, latencyMicros } = this.counts;
    const flying = this.window.waiting();
    return {
      inFlightRequests: flying.length,
      inFlightRecords: flying.reduce((sum, r) => sum + r.count, 0),
      inFlightBytes: flying.reduce((sum, r) => sum + r.size, 0),
      bufferedBytes: this.#buffered,
      requests: requestRecords.count,
      records: requestRecords.sum,
      bytes: requestBytes.sum,
      failed,
      resent,
      streams,
      requestRecords: requestRecords.copy(),
      requestBytes: requestBytes.copy(),
      latencyMicros: latencyMicros.copy(),
    };
  }

  /** Gives the records of a request their offsets. */
  settle(r: Request, offsets: number[]): void {
    this.counts.appended(r.count, r.size, performance.now() - r.sent);
    for (const [i, waiter] of r.waiters.entries()) waiter.resolve(offsets[i] as number);
    for (const done of r.settled) done();
  }

  /** Gives the records of a request an error. One in doubt gets its place for Admin.resolve. */
  settleError(r: Request, error: StrandlineError): void {
    this.counts.failed += r.count;
    for (const [i, waiter] of r.waiters.entries()) waiter.reject(this.inDoubt([r, i], error));
    for (const done of r.settled) done();
  }

  /** An error of one record, with its place if it is in doubt. */
  inDoubt(at: Placed, error: StrandlineError): StrandlineError {
    return error.but(error.outcome === "maybe_done" ? { position: this.place(at) } : {});
  }

  /** Where a record stands in its session. */
  place([r, index]: Placed): Position | undefined {
    const { logId } = this;
    const at = r.state === "accepted" ? this.position(r) : { logId, session: r.session, epoch: r.epoch, next: r.first };
    return at.session ? { ...at, next: at.next + index } : undefined;
  }

  /** Where the next record stands that will be accepted, or the first one of a request that is still open. */
  position(before?: Request): Position {
    let next = this.next;
    for (const r of this.#open()) {
      if (r === before) break;
      next += r.count;
    }
    return { logId: this.logId, session: this.session?.id ?? "", epoch: this.session?.epoch ?? 0, next };
  }

  #open(): Request[] {
    return this.forming ? [...this.queue, this.forming] : [...this.queue];
  }

  /**
   * Keeps what was accepted behind an interruption that leaves nothing that was sent without a result: what
   * was refused is in the log by an earlier sending, or it was the session that ended. It goes to the next
   * epoch, which a producer that ends on failures never begins. Otherwise it fails.
   */
  continueOrFail(i: Interruption): void {
    const resolved = i.refused || i.error.endsSession;
    if (this.window.flight.length > 0 || !resolved || this.options.endOnFailure) this.fail(i);
    else this.#beginEpoch(i.error.epoch);
  }

  /**
   * Settles everything without a result: the request that the interruption is about, or else the oldest,
   * with its error, and the others as behind it. The epoch ends, so that later records are not taken for
   * those that failed.
   */
  fail({ error, refused }: Interruption): void {
    const failed = [...this.window.fail(), ...this.#open()];
    this.queue.clear();
    this.forming = undefined;
    if (this.options.endOnFailure || error.reason === "LOG_REPLACED" || error.reason === "CLOSED") this.stop(error);
    this.#beginEpoch(error.epoch);
    failed.forEach((r, n) => {
      const first = refused ? r === refused : n === 0;
      this.settleError(r, first ? error.but({ outcome: r.outcome }) : behind(error, r.outcome));
    });
    for (const r of failed) this.#release(r);
  }

  #beginEpoch(above: number): void {
    if (!this.session) return;
    this.session = { ...this.session, epoch: Math.max(this.session.epoch, above) + 1 };
    this.next = 0;
  }

  /** Lets the producer accept nothing more. */
  stop(error: StrandlineError): void {
    this.ended ??= error.but({ outcome: "not_done" });
    this.#admit();
  }

  /** Accepts nothing more but what waits for room already. */
  close(): void {
    this.#closing = true;
  }
}

function tooLarge(bytes: number): StrandlineError | undefined {
  if (bytes <= maxRecordBytes) return undefined;
  const message = `a record of ${bytes} bytes, the limit is ${maxRecordBytes}`;
  return new StrandlineError("TOO_LARGE", message, { facts: { limit: String(maxRecordBytes) } });
}
