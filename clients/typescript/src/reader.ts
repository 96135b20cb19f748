import { type ClientReadableStream, InterceptingCall, type Interceptor } from "@grpc/grpc-js";
import { type Bound, type Calls, methods, type Route, ToDialled, ToLeader, ToReplica } from "./calls.js";
import { span, whole } from "./check.js";
import { cancelled, closed, fromRpc, invalid, StrandlineError, unreachable } from "./errors.js";
import { type Filter, filterToWire, type Projection, projectionToWire } from "./filters.js";
import {
  GetInfoRequest,
  ReadConsistency,
  ReadFormat,
  ReadPosition,
  ReadRequest,
  type ReadResponse,
  type Record as WireRecord,
} from "./generated/strandline/v1/log.js";
import { Pauses, type Peer } from "./peers.js";
import { duration, fromWire, milliseconds, type Record, sizeOf, timestampOf } from "./records.js";
import { Shown } from "./token.js";
import { abortable, timed } from "./wait.js";

/** The least bound that a node takes: a leader sends its end to the others about as often. */
const leastStalenessMs = 100;

/**
 * What a reader reads. It begins at the offset, at the first record appended at or after the time (by the
 * leader's clock), at the tail as it is when the reader is opened, or else at the oldest record. It ends at
 * the end of the log, unless it is to follow, or at the first limit.
 *
 * It reads from the leader, everything that was acknowledged before it began, unless anyReplica, atLeast
 * or maxStalenessMs says otherwise: these ask only the addresses given to the client, unless preferFollower
 * or nearest is there.
 */
export interface ReaderOptions {
  offset?: number | undefined;
  time?: Date | undefined;
  tail?: boolean | undefined;
  /** The id of the log in which a kept offset has its meaning. */
  logId?: number | undefined;
  follow?: boolean | undefined;
  maxRecords?: number | undefined;
  /** About as they are stored; at least one batch. */
  maxBytes?: number | undefined;
  /** The first offset that is not read. */
  untilOffset?: number | undefined;
  untilTime?: Date | undefined;
  /** Reads what the answering node knows. */
  anyReplica?: boolean | undefined;
  /** Waits until the answering node knows the log up to this offset. */
  atLeast?: number | undefined;
  /** Bounds the age of what the answering node knows: 100 ms or more. */
  maxStalenessMs?: number | undefined;
  /**
   * Reads from a voter that does not lead, while there is one, then from a read replica, which may be far
   * away, and from the leader last.
   */
  preferFollower?: boolean | undefined;
  /**
   * Reads from the nearest replica, whatever its role: one on a node with the first of the labels (KEY=VALUE,
   * such as "dc=syd"), then with the second, and so on; without labels (true), and among equal ones, the one
   * that answers soonest. With anyReplica or maxStalenessMs the read costs no round trip to the leader;
   * without, it is linearizable, and the replica asks the leader once, at the beginning. When its node is lost,
   * or refuses, the reader continues at the next offset on the next nearest, and stays there; the log never
   * goes back for it.
   */
  nearest?: boolean | string | readonly string[] | undefined;
  /**
   * How often a server with nothing to send says so (5 s); after three times as long without a frame
   * another connection is opened.
   */
  heartbeatMs?: number | undefined;
  /** Reads the records that it selects: maxRecords and maxBytes count those. */
  filter?: Filter | undefined;
  /** Reads of each record what it leaves. */
  projection?: Projection | undefined;
  /**
   * Is called when a reader with a filter or a projection has moved without a record: everything below
   * offset has been looked at, and the log ends at end.
   */
  onProgress?: ((offset: number, end: number) => void) | undefined;
}

/**
 * How often in a row servers that can be reached may break a stream before its first frame, without saying
 * that another try may help.
 */
const maxBrokenStreams = 10;

/** What a reader has had since its last frame. */
class Trouble {
  count = 0;
  readonly pauses = new Pauses();
  #broken = 0;
  readonly #began = performance.now();

  /**
   * Whether to open another stream: on each of width nodes, and then again. A reader that has had a frame
   * waits for its servers for ever; one that has not, or whose bound no replica keeps, for the retry time.
   */
  worthAnother(failure: StrandlineError, reached: boolean, placed: boolean, width: number, retryTime: number): boolean {
    this.count++;
    if (reached && !(failure.retryable && failure.reason !== "UNREACHABLE")) this.#broken++;
    const patient = placed && failure.reason !== "STALE";
    const inTime = performance.now() - this.#began < failure.within(retryTime);
    const worth = patient || this.count < width || inTime;
    return this.#broken <= maxBrokenStreams && worth;
  }
}

/** Frames that a reader has received and nobody has asked for. */
const framesAhead = 2;

/**
 * Lets a stream receive no more than a few messages ahead of who takes them. Left alone, the stream would keep
 * sixteen.
 */
export class Gate extends InterceptingCall {
  #open = framesAhead;
  #waits = false;

  override startRead(): void {
    if (this.#open === 0) {
      this.#waits = true;
      return;
    }
    this.#open--;
    super.startRead();
  }

  /** Lets one more message in: one was taken. */
  taken(): void {
    this.#open++;
    if (!this.#waits) return;
    this.#waits = false;
    this.startRead();
  }
}

/**
 * Reads one log. When the connection breaks, or the node can no longer serve it, it resumes at the next
 * offset on another. Made by {@link Client.read}.
 *
 *     for await (const record of client.read("orders", { follow: true })) ...
 */
export class Reader implements AsyncIterableIterator<Record> {
  /**
   * The id of the log that is read; 0 before the first frame. An offset has a meaning only in the log with
   * its id: who keeps one keeps the other, too.
   */
  logId: number;
  /** The committed end of the log as far as servers have said: it never goes back. */
  end = 0;
  /**
   * How old, in milliseconds, the knowledge of end was when the newest frame was made; from a leader, how
   * long ago a majority followed it. undefined before the first frame, and while the node read from has not
   * heard from a leader.
   */
  ageMs: number | undefined;
  readonly #route: Route;
  #next: number | undefined; // undefined: known with the first frame
  #looked = 0; // with a filter: where the next frame begins
  #placed = false; // a frame has come
  #given = 0; // records
  #took = 0; // about how many bytes
  #records: Record[] = []; // of the newest frame, from #at on
  #at = 0;
  #stream: ClientReadableStream<Buffer> | undefined;
  #peer: Peer | undefined; // that it comes from
  #frames: AsyncIterator<Buffer> | undefined; // of the stream; they are decoded when they are taken
  #gate: Gate | undefined; // of the stream
  #trouble = new Trouble();
  readonly #shown: Shown;
  #failure: StrandlineError | undefined; // final
  #ended = false;

  /** @internal */
  constructor(
    private readonly calls: Calls,
    readonly log: string,
    private readonly options: ReaderOptions,
  ) {
    const { offset, time, tail, atLeast, maxStalenessMs, anyReplica, preferFollower, nearest } = options;
    if (Number(offset !== undefined) + Number(time !== undefined) + Number(tail ?? false) > 1) {
      throw invalid("a read must begin at only one of an offset, a time and the tail");
    }
    if (preferFollower && nearest) {
      throw invalid("a read cannot both use the nearest replica and prefer followers");
    }
    for (const name of ["offset", "atLeast", "maxRecords", "maxBytes", "untilOffset", "logId"] as const) {
      whole(name, options[name]);
    }
    span("maxStalenessMs", maxStalenessMs, leastStalenessMs);
    span("heartbeatMs", options.heartbeatMs);
    timestampOf(time);
    timestampOf(options.untilTime);
    this.logId = options.logId ?? 0;
    this.#next = offset;
    this.#shown = new Shown(calls.token);
    const linearizable = !anyReplica && atLeast === undefined && maxStalenessMs === undefined;
    const labels = typeof nearest === "string" ? [nearest] : nearest === true ? [] : nearest || undefined;
    if (preferFollower || labels) this.#route = new ToReplica(calls, log, labels);
    else if (linearizable) this.#route = new ToLeader(calls, log, true);
    else this.#route = new ToDialled(calls.peers);
  }

  /** That of the next record, or with a filter, where the search for it goes on; undefined before the first. */
  get offset(): number | undefined {
    return this.#next;
  }

  /**
   * Finds the tail, where the read begins there; otherwise it asks nobody. Asking first gives the tail a
   * fixed place, which a broken connection cannot move. Reading does it, too.
   */
  async open({ signal }: Bound = {}): Promise<this> {
    if (!this.options.tail || this.#next !== undefined) return this;
    const { calls, log, logId } = this;
    const allowStale = this.options.anyReplica ?? false;
    const request = GetInfoRequest.fromPartial({ log, logId, allowStale });
    try {
      const { info } = allowStale
        ? await calls.by(
            this.#route,
            (peer) => calls.answered(peer, log, methods.getInfo, request, false, signal),
            signal,
          )
        : await calls.toLeader(log, methods.getInfo, request, signal);
      this.logId = info?.id ?? 0;
      this.#next = this.end = info?.endOffset ?? 0;
    } catch (error) {
      throw fromRpc(error).but({ outcome: "not_done" });
    }
    return this;
  }

  /** The iterator is the reader itself. */
  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Ends the read where a loop is left. */
  async return(): Promise<IteratorReturnResult<undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  /**
   * Gives the next record, or `done` at the end of what was asked for; a read that follows waits there.
   * After a signal was aborted it may be called again.
   */
  async next({ signal }: Bound = {}): Promise<IteratorResult<Record, undefined>> {
    if (this.#at === this.#records.length && !(await this.#fill(signal))) return { done: true, value: undefined };
    const record = this.#records[this.#at++] as Record;
    this.#given++;
    this.#next = record.offset + 1;
    return { done: false, value: record };
  }

  /** Gives what is left of a frame: faster than next, and otherwise the same. It is empty at the end. */
  async nextBatch({ signal }: Bound = {}): Promise<Record[]> {
    if (this.#at === this.#records.length && !(await this.#fill(signal))) return [];
    const batch = this.#records.slice(this.#at);
    this.#at = this.#records.length;
    this.#given += batch.length;
    this.#next = (batch.at(-1) as Record).offset + 1;
    return batch;
  }

  /** Ends the read. */
  close(): void {
    this.#failure = closed("reader");
    this.#records = [];
    this.#at = 0;
    this.#hangUp();
  }

  /** Gets records. false: there are no more. */
  async #fill(signal?: AbortSignal): Promise<boolean> {
    await this.open({ signal });
    while (this.#at === this.#records.length) {
      if (this.#next !== undefined && this.#next < this.#looked) {
        this.#next = this.#looked;
        this.options.onProgress?.(this.#next, this.end);
      }
      if (this.#failure) throw this.#failure.but({});
      if (this.#ended || this.#done()) {
        this.#ended = true;
        this.#hangUp();
        return false;
      }
      await this.#fetch(signal);
    }
    return true;
  }

  /** Whether a limit has been reached, of which a stream that is opened now would know nothing. */
  #done(): boolean {
    const { maxRecords, maxBytes, untilOffset } = this.options;
    const none = Number.POSITIVE_INFINITY;
    return (
      this.#given >= (maxRecords ?? none) ||
      this.#took >= (maxBytes ?? none) ||
      (this.#next ?? 0) >= (untilOffset ?? none)
    );
  }

  /** Receives one frame, or repairs the stream so that the next call can. */
  async #fetch(signal?: AbortSignal): Promise<void> {
    let reached = this.#frames !== undefined;
    let frame: ReadResponse | undefined;
    try {
      if (!this.#frames) {
        const peer = await this.#route.connect(signal);
        if (this.#failure) return; // closed meanwhile
        const { client } = peer;
        this.#peer = peer;
        reached = true;
        const { path, write } = methods.read;
        const bytes = (frame: Buffer) => frame;
        const { calls } = this;
        const gated: Interceptor = (options, next) => {
          this.#gate = new Gate(next(options));
          return this.#gate;
        };
        const options = { interceptors: [gated] };
        this.#stream = calls.track(
          client.makeServerStreamRequest(path, write, bytes, this.#request(), this.#shown.metadata, options),
        );
        this.#stream.on("error", () => {}); // the iterator has it, unless nobody asks any more
        this.#frames = this.#stream[Symbol.asyncIterator]();
      }
      frame = await this.#receive(this.#frames, signal);
      this.#gate?.taken();
    } catch (error) {
      if (signal?.aborted) {
        this.#hangUp();
        throw cancelled("not_done");
      }
      if (!this.#failure) await this.#recover(this.#shown.failure(this.calls.failure(error)), reached, signal);
      return;
    }
    const { follow, maxRecords, maxBytes, untilOffset, untilTime } = this.options;
    const limited = [maxRecords, maxBytes, untilOffset, untilTime].some((limit) => limit !== undefined);
    if (frame) {
      if (this.#trouble.count > 0) this.calls.trouble(this.log);
      this.#trouble = new Trouble();
      this.#shown.progressed();
      this.#take(frame);
    } else if (!follow || limited) {
      this.#ended = true;
    } else {
      await this.#recover(unreachable("not_done", "the server ended the stream"), true, signal);
    }
  }

  /**
   * A frame; undefined at the end of the stream. One that follows may not be silent for long; one that does
   * not relies on the keep-alive of the connection. Either leaves a node that stands still.
   */
  async #receive(frames: AsyncIterator<Buffer>, signal?: AbortSignal): Promise<ReadResponse | undefined> {
    const silence = this.options.follow ? 3 * (this.options.heartbeatMs ?? 5000) : undefined;
    const late = new AbortController();
    const timer = silence && setTimeout(() => late.abort(), timed(silence));
    const next = this.calls.attend(this.#peer as Peer, this.log, frames.next());
    const frame = abortable(next, signal, () => cancelled("not_done"));
    try {
      const silent = () => unreachable("not_done", `the server was silent for ${silence} ms`);
      const { done, value } = await abortable(frame, silence ? late.signal : undefined, silent);
      return done ? undefined : methods.read.read(value);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Decides, after a stream could not be opened or broke, whether to try another, and pauses. */
  async #recover(failure: StrandlineError, reached: boolean, signal?: AbortSignal): Promise<void> {
    this.#hangUp();
    const move = failure.elsewhere || this.#onlyHere(failure);
    if (move) this.#route.elsewhere(failure);
    const width = move ? this.#route.width(failure) : 1;
    const trouble = this.#trouble;
    if (
      !(move || failure.again) ||
      !trouble.worthAnother(failure, reached, this.#placed, width, this.calls.retryTime)
    ) {
      this.#failure = failure;
      return;
    }
    this.calls.trouble(this.log, failure);
    if (trouble.count > 1) {
      await trouble.pauses.between(this.#route.tried, width, signal);
    }
  }

  /**
   * Whether another replica may do better than the one whose refusal is final there: one that lags behind
   * what this reader has seen, or whose copy is damaged.
   */
  #onlyHere(failure: StrandlineError): boolean {
    if (failure.reason === "OFFSET_BEYOND_END") return this.#next !== undefined && this.#next <= this.end;
    return failure.reason === "CORRUPT" && this.#route.width(failure) > 1;
  }

  #fail(failure: StrandlineError): void {
    this.#failure = failure;
    this.#hangUp();
  }

  /** Accepts a frame. */
  #take(frame: ReadResponse): void {
    const { firstOffset, recordCount, logId } = frame;
    this.logId ||= logId;
    if (logId !== this.logId) {
      const message = `log ${this.log} with id ${this.logId} was deleted; another one has its name`;
      return this.#fail(new StrandlineError("LOG_REPLACED", message, { facts: { log_id: String(logId) } }));
    }
    if (!Number.isSafeInteger(firstOffset + recordCount) || !Number.isSafeInteger(frame.nextOffset ?? 0)) {
      const message = "an offset is above 2^53, more than a number holds exactly";
      return this.#fail(new StrandlineError("UNSUPPORTED", message));
    }
    this.#next ??= firstOffset;
    const next = this.#next;
    if (firstOffset > next || recordCount !== frame.records.length) {
      return this.#fail(new StrandlineError("CORRUPT", "received a frame that does not follow the one before"));
    }
    const { untilOffset, maxRecords, filter, projection } = this.options;
    const selects = filter !== undefined || projection !== undefined;
    if (selects && frame.nextOffset === undefined) {
      const message = "the server does not know filters and projections: it needs a later version";
      return this.#fail(new StrandlineError("UNSUPPORTED", message));
    }
    // Another replica may know less: what was committed once stays so.
    this.end = Math.max(this.end, frame.endOffset);
    this.ageMs = milliseconds(frame.age);
    this.#placed = true;
    if (selects) return this.#takeSelected(frame, next);
    let until = Math.min(firstOffset + recordCount, untilOffset ?? Number.POSITIVE_INFINITY);
    if (maxRecords !== undefined) until = Math.min(until, next + maxRecords - this.#given);
    const { records } = frame;
    const whole = next === firstOffset && until === firstOffset + recordCount;
    this.#give(whole ? records : records.filter(({ offset }) => next <= offset && offset < until));
  }

  /** Accepts the frame of a read with a filter, which the server has cut. */
  #takeSelected({ firstOffset, nextOffset = 0, records, failed }: ReadResponse, next: number): void {
    let at = firstOffset;
    for (const { offset } of records) {
      if (offset < at || offset >= nextOffset) {
        const message = `received a record of offset ${offset} where one from ${at} on was due`;
        return this.#fail(new StrandlineError("CORRUPT", message));
      }
      at = offset + 1;
    }
    if (nextOffset < at) {
      return this.#fail(new StrandlineError("CORRUPT", "received a frame that ends before it begins"));
    }
    this.#looked = nextOffset;
    this.#give(records.filter(({ offset }) => offset >= next));
    for (const { offset, message } of failed) {
      if (offset >= next) this.options.filter?.onFailed?.(offset, message);
    }
  }

  #give(records: WireRecord[]): void {
    this.#records = records.map(fromWire);
    this.#at = 0;
    if (this.options.maxBytes !== undefined) {
      for (const record of this.#records) this.#took += sizeOf(record);
    }
  }

  /** Asks for what has not been given yet. */
  #request(): ReadRequest {
    const { follow, time, maxRecords, maxBytes, untilOffset, untilTime, atLeast, maxStalenessMs } = this.options;
    const { filter, projection } = this.options;
    const level = this.options.anyReplica
      ? ReadConsistency.READ_CONSISTENCY_ANY
      : ReadConsistency.READ_CONSISTENCY_LINEARIZABLE;
    return ReadRequest.fromPartial({
      log: this.log,
      logId: this.logId,
      follow: follow ?? false,
      format: ReadFormat.READ_FORMAT_RECORDS,
      heartbeat: duration(this.options.heartbeatMs),
      offset: this.#next,
      time: this.#next === undefined ? timestampOf(time) : undefined,
      position: this.#next === undefined && !time ? ReadPosition.READ_POSITION_START : undefined,
      atLeastOffset: atLeast,
      maxAge: atLeast === undefined ? duration(maxStalenessMs) : undefined,
      level: atLeast === undefined && maxStalenessMs === undefined ? level : undefined,
      maxRecords: maxRecords === undefined ? 0 : maxRecords - this.#given,
      maxBytes: maxBytes === undefined ? 0 : maxBytes - this.#took,
      untilOffset,
      untilTime: timestampOf(untilTime),
      filter: filter && filterToWire(filter),
      projection: projection && projectionToWire(projection),
    });
  }

  #hangUp(): void {
    this.#stream?.cancel();
    this.#stream = this.#frames = undefined;
  }
}
