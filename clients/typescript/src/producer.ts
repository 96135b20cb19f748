import { Backlog, complete, type Placed, type ProducerOptions } from "./backlog.js";
import type { Bound, Calls } from "./calls.js";
import { whole } from "./check.js";
import { type Check, checkToWire } from "./checkedAppend.js";
import { cancelled, invalid, type Position } from "./errors.js";
import { type Appendable, type Session, toWire } from "./records.js";
import { Rounds } from "./rounds.js";
import { ProducerSession } from "./session.js";
import type { Stats } from "./stats.js";
import { abortable } from "./wait.js";
import { Request } from "./window.js";

/**
 * Appends records to one log: pipelined, in the order they were given, each at most once.
 *
 * Records gather in a request while earlier ones are in flight. When a connection breaks or another node
 * becomes the leader, the requests without an answer are sent again, in order, with the same sequences, so
 * that the log recognises what it has already.
 *
 * When the log refuses a request for good, that request fails and so does every record that was accepted
 * after it and before the failure (BEHIND_FAILED): none slips ahead. Records accepted later continue in the
 * session's next epoch. When the session itself is gone, everything without an answer is settled by asking
 * the log; if that leaves a record in doubt, the producer ends.
 *
 * Made by {@link Client.producer}.
 */
export class Producer {
  readonly #backlog: Backlog;
  readonly #session: ProducerSession;
  readonly #rounds: Rounds;
  #running = Promise.resolve();

  /** @internal */
  constructor(
    calls: Calls,
    readonly log: string,
    options: ProducerOptions,
  ) {
    this.#backlog = new Backlog(complete(options));
    this.#session = new ProducerSession(calls, log, this.#backlog);
    this.#rounds = new Rounds(calls, log, this.#backlog, this.#session);
  }

  /** @internal */
  async open(signal?: AbortSignal): Promise<this> {
    await this.#session.open(signal);
    this.#running = this.#rounds.run();
    return this;
  }

  /**
   * Appends a record. The promise is of its offset, and is resolved when the record is durable; records
   * are accepted in the order of the calls, whether they are awaited or not. It is accepted at once unless
   * as much as bufferBytes is without answers: see {@link ready}. It is copied; the caller may change it. When the signal is aborted first the
   * record is on its way all the same, unless the error says not_done.
   */
  append(record: Appendable, { signal }: Bound = {}): Promise<number> {
    if (!signal) return new Promise((resolve, reject) => this.#backlog.add(toWire(record), { resolve, reject }));
    return this.#bounded(signal, (placed) => {
      return new Promise((resolve, reject) => this.#backlog.add(toWire(record), { resolve, reject }, placed, signal));
    });
  }

  /**
   * Appends records in one request. The promise is of their offsets, which follow one another unless a part
   * had become durable before the request was sent again.
   *
   * With expectedEnd they are appended only if the log ends exactly there, with all that was accepted
   * before; else the error is END_MISMATCH. With atomic all become durable together or none.
   *
   * With check all of them are appended or none, and only if the check holds, with all that was accepted
   * before. Else the error is CONFLICT, whose offset and key are those of a record that matches: read from
   * `since` on, decide again, and check since where you have read to; or CHECK_TOO_OLD, if the log cannot decide
   * the check from so far back, but only from startOffset on: read up to there. In both cases nothing was
   * appended. An append that was accepted and is sent again succeeds. The caller needs the right to read the log.
   */
  async appendBatch(
    records: Appendable[],
    {
      expectedEnd,
      atomic = false,
      check,
      signal,
    }: Bound & { expectedEnd?: number | undefined; atomic?: boolean; check?: Check | undefined } = {},
  ): Promise<number[]> {
    if (records.length === 0) throw invalid("the batch has no records");
    whole("expectedEnd", expectedEnd);
    const request = new Request();
    Object.assign(request, { expectedEnd, atomic, check: check && checkToWire(check) });
    const offsets = records.map((record) => {
      request.records.push(toWire(record));
      return new Promise<number>((resolve, reject) => request.waiters.push({ resolve, reject }));
    });
    return this.#bounded(signal, (placed) => {
      this.#backlog.addRequest(request, placed, signal);
      return Promise.all(offsets);
    });
  }

  /** Waits for what was begun, or until the signal is aborted: the error says where the record is by then. */
  #bounded<T>(signal: AbortSignal | undefined, begin: (placed: (at: Placed) => void) => Promise<T>): Promise<T> {
    let at: Placed | undefined;
    const doing = begin((placed) => {
      at = placed;
    });
    return abortable(doing, signal, () =>
      at ? this.#backlog.inDoubt(at, cancelled("maybe_done")) : cancelled("not_done"),
    );
  }

  /** Resolves when there is room for more records: who appends without waiting for answers awaits it now and then. */
  ready(): Promise<void> {
    return this.#backlog.ready();
  }

  /** Waits until every record given before has its answer, good or bad, without lingering. */
  async flush({ signal }: Bound = {}): Promise<void> {
    const settled = new Promise<void>((resolve) => this.#backlog.flush(resolve));
    await abortable(settled, signal, () => cancelled("maybe_done"));
  }

  /**
   * Accepts nothing more, waits for the answers that are missing and closes the session. When the signal is
   * aborted, what is unanswered fails; the session then stays until its lease runs out.
   */
  async close({ signal }: Bound = {}): Promise<void> {
    this.#backlog.close();
    try {
      await this.flush({ signal });
    } finally {
      this.#rounds.end();
      await this.#running;
    }
    await this.#session.close(signal);
  }

  /** Closes the producer at the end of an `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** What the producer has done and is doing, as of now. */
  get stats(): Stats {
    return this.#backlog.stats();
  }

  /**
   * Where the producer stands in its session. It moves with every record that is accepted; and to 0 in
   * another epoch or session when one fails, unless endOnFailure is set.
   */
  get position(): Position {
    return this.#backlog.position();
  }

  /** The session now; undefined without one. */
  get session(): Session | undefined {
    return this.#backlog.session;
  }
}
