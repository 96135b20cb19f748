import type { ClientDuplexStream } from "@grpc/grpc-js";
import { Admin } from "./admin.js";
import type { Backlog, Interruption } from "./backlog.js";
import { type Calls, methods, suspectAfter, ToLeader } from "./calls.js";
import { closed, fromRefusal, type Position, StrandlineError, silent, unreachable, worst } from "./errors.js";
import { type Appended, AppendRequest, type AppendResponse } from "./generated/strandline/v1/log.js";
import { Pauses, type Peer } from "./peers.js";
import type { Resolution } from "./records.js";
import type { ProducerSession } from "./session.js";
import { Shown } from "./token.js";
import { aborted, timed } from "./wait.js";
import type { Request } from "./window.js";

/** The log is asked for so long, in milliseconds, even if the oldest record has hardly any time left. */
const resolveAtLeast = 1000;

const unexplained = { code: 0, reason: "", message: "", metadata: {} };

type Stream = ClientDuplexStream<AppendRequest, AppendResponse>;

/**
 * Sends what a backlog holds. A round begins with a stream and ends with an interruption, which says why;
 * between two of them repair decides what becomes of what has no answer.
 */
export class Rounds {
  readonly #route: ToLeader;
  readonly #admin: Admin;
  readonly #shown: Shown;
  readonly #end = new AbortController(); // of the producer
  #over = new AbortController(); // of the round
  #interruption: Interruption | undefined;
  #stream: Stream | undefined;
  #last: Interruption | undefined; // waits for the answers to what was sent
  #named = false; // the stream has named its log
  #appended = 0; // requests
  #troubled = false; // the application was told so
  #scheduled = false; // a look at what can be sent
  #lingering: NodeJS.Timeout | undefined;
  #woken = () => {}; // from idling
  readonly #clocks: NodeJS.Timeout[] = [];

  constructor(
    private readonly calls: Calls,
    private readonly log: string,
    private readonly backlog: Backlog,
    private readonly session: ProducerSession,
  ) {
    this.#route = new ToLeader(calls, log);
    this.#admin = new Admin(calls);
    this.#shown = new Shown(calls.token);
    backlog.onChange = () => this.#wake();
  }

  /** Sends until the producer ends. */
  async run(): Promise<void> {
    const { session, leaseMs, recordTimeoutMs } = this.backlog.options;
    this.#clock(Math.min(1000, recordTimeoutMs / 4 || 1000, session ? leaseMs / 12 : 1000), () => this.#watch());
    if (session) this.#clock(Math.min(1000, leaseMs / 12), () => this.#keep());
    const withClient = { cancel: () => this.end(closed("client")) };
    this.calls.open.add(withClient);
    let pauses: Pauses | undefined;
    let width = 1;
    while (!this.#end.signal.aborted) {
      if (!this.backlog.newest() && !this.#interruption) {
        pauses = undefined;
        await new Promise<void>((resolve) => {
          this.#woken = resolve;
        });
        continue;
      }
      const before = this.#appended;
      await this.#round(pauses, width);
      pauses = this.#appended !== before ? undefined : (pauses ?? new Pauses());
      const i = this.#interruption ?? { error: closed("producer") };
      this.#interruption = undefined;
      this.#over = new AbortController();
      width = i.error.elsewhere ? this.#route.width(i.error) : 1;
      if (i.error.again && i.error.reason !== "TIMED_OUT" && !this.#end.signal.aborted) {
        this.#troubled = true;
        this.calls.trouble(this.log, i.error);
      }
      await this.#repair(i);
      if (this.#interrupted()?.error.reason === "TIMED_OUT") {
        // What it was about may be settled by now; else the watch interrupts again.
        this.#interruption = undefined;
        this.#over = new AbortController();
      }
    }
    this.calls.open.delete(withClient);
    for (const clock of this.#clocks) clearInterval(clock);
    this.backlog.fail({ error: this.#end.signal.reason });
  }

  /** What #interrupt has noted: the compiler does not see that it may have come while something was awaited. */
  #interrupted(): Interruption | undefined {
    return this.#interruption;
  }

  /** Ends the producer: what has no answer fails. */
  end(why = closed("producer")): void {
    this.#end.abort(why);
    this.#interrupt({ error: why });
  }

  /** Ends the round, or the next one if there is none now. Of several reasons the first counts. */
  #interrupt(i: Interruption): void {
    this.#interruption ??= i;
    this.#over.abort();
    this.#woken();
  }

  /** Does something again and again, but not while the last time lasts. */
  #clock(ms: number, work: () => Promise<void>): void {
    let working = false;
    const beat = async () => {
      if (working) return;
      working = true;
      await work();
      working = false;
    };
    this.#clocks.push(setInterval(beat, ms));
  }

  /** Looks at what can be sent, after all who run now have had their turn: their records meet in one request. */
  #wake(): void {
    this.#woken();
    if (this.#scheduled || !this.#stream) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#send();
    });
  }

  /** Runs a round until it is interrupted. */
  async #round(pauses: Pauses | undefined, width: number): Promise<void> {
    const { signal } = this.#over;
    try {
      await pauses?.between(this.#route.tried, width, signal);
      const peer = await this.#route.connect(signal);
      await this.session.reopen(signal);
      if (!signal.aborted) this.#open(peer);
    } catch (error) {
      this.#interrupt({ error: this.calls.failure(error) });
    }
    await aborted(signal);
    clearTimeout(this.#lingering);
    this.#stream?.cancel();
    this.#stream = undefined;
  }

  #open(peer: Peer): void {
    const { path, write, read } = methods.append;
    const stream: Stream = peer.client.makeBidiStreamRequest(path, write, read, this.#shown.metadata);
    const broken = (error: unknown) => {
      if (this.#stream !== stream) return;
      this.#interrupt(this.#last ?? { error: this.#shown.failure(this.calls.failure(error)) });
    };
    stream.on("error", broken);
    stream.on("end", () => broken(unreachable("maybe_done", "the server ended the stream")));
    stream.on("data", (answer: AppendResponse) => {
      if (this.#stream === stream && !this.#over.signal.aborted) this.#take(answer);
    });
    this.#stream = stream;
    this.#last = undefined;
    this.backlog.counts.streams++;
    this.#named = false;
    this.#wake();
  }

  /** Puts requests on the stream, in order. */
  #send(): void {
    const { window, options, logId } = this.backlog;
    while (this.#stream && !this.#over.signal.aborted) {
      const r = window.unsent() ?? this.#closeBatch();
      if (!r) return;
      if (r.sent) this.backlog.counts.resent++;
      r.sent ||= performance.now();
      const message: AppendRequest = {
        ...AppendRequest.fromPartial({}),
        log: this.#named ? "" : this.log,
        logId,
        sessionId: r.session || "0",
        epoch: r.epoch,
        firstSequence: r.first,
        lowWater: r.session ? window.lowWater() : 0,
        writerTerm: options.writerTerm,
        expectedEnd: r.expectedEnd,
        atomic: r.atomic,
        ...(r.check ? { checked: { ...r.check, records: r.records } } : { records: r.records }),
      };
      window.sent++;
      this.#named = true;
      this.#stream.write(message);
    }
  }

  /** The next request, if the window has room for it and it does not linger. */
  #closeBatch(): Request | undefined {
    const { backlog } = this;
    const r = backlog.candidate();
    if (!r || !backlog.window.admits(r.size)) return undefined;
    if (r === backlog.forming && !r.urgent) {
      const left = backlog.options.lingerMs - (performance.now() - r.accepted);
      if (backlog.options.lingerMs > 0 && left > 0) {
        clearTimeout(this.#lingering);
        this.#lingering = setTimeout(() => this.#send(), timed(left));
        return undefined;
      }
    }
    return backlog.closeBatch();
  }

  /** Takes an answer. They come in the order of the requests. */
  #take({ appended, refused }: AppendResponse): void {
    const { window } = this.backlog;
    const r = window.oldest();
    if (!r) {
      this.#interrupt({ error: unreachable("maybe_done", "an answer without a request") });
    } else if (r.state === "failed") {
      this.backlog.leave();
    } else if (appended) {
      this.#takeOffsets(r, appended);
    } else if (this.#last) {
      const error = fromRefusal(refused ?? unexplained);
      // It was sent with the same token, and there is another.
      this.#settleError(r, error.reason === "UNAUTHENTICATED" ? error.but({ retryable: true }) : error);
    } else {
      const i = this.#refused(r, this.#shown.failure(fromRefusal(refused ?? unexplained)));
      if (window.held) this.#last = i;
      else if (i) this.#interrupt(i);
    }
    if (this.#last && window.sent === 0) this.#interrupt(this.#last);
  }

  #takeOffsets(
    r: Request,
    { firstOffset, endOffset, ranges }: Pick<Appended, "firstOffset" | "endOffset" | "ranges">,
  ): void {
    const offsets: number[] = [];
    for (const { first, end } of ranges.length > 0 ? ranges : [{ first: firstOffset, end: endOffset }]) {
      for (let at = first; at < end && offsets.length <= r.count; at++) offsets.push(at);
    }
    if (offsets.length !== r.count) {
      const message = "the answer does not match the request";
      return this.#settleError(r, new StrandlineError("OUTCOME_FORGOTTEN", message, { outcome: "done" }));
    }
    if (!Number.isSafeInteger(offsets.at(-1))) {
      const message = "the offset is above 2^53, more than a number holds exactly";
      return this.#settleError(r, new StrandlineError("OUTCOME_FORGOTTEN", message, { outcome: "done" }));
    }
    this.#appended++;
    this.#shown.progressed();
    if (this.#troubled) {
      this.#troubled = false;
      this.calls.trouble(this.log);
    }
    this.backlog.settle(r, offsets);
    this.backlog.leave();
  }

  #settleError(r: Request, error: StrandlineError): void {
    this.backlog.settleError(r, error);
    this.backlog.leave();
  }

  /** Deals with a refusal of the oldest request. What takes more than failing requests ends the round. */
  #refused(r: Request, error: StrandlineError): Interruption | undefined {
    if (!this.backlog.options.session) {
      // Those behind it have answers of their own: without a session nothing else says what became of them.
      this.backlog.window.held = error.renewed;
      this.#settleError(r, error);
      return error.elsewhere || error.renewed ? { error, refused: r } : undefined;
    }
    if (error.outcome === "done") {
      // It is in the log, so nothing slips ahead of it: those behind continue.
      this.#settleError(r, error);
      return undefined;
    }
    const settled = error.outcome === "not_done" && !this.backlog.window.doubtful();
    if (error.again || error.endsSession || !settled) return { error, refused: r };
    this.backlog.fail({ error, refused: r });
    this.backlog.leave();
    return undefined;
  }

  /**
   * Decides what becomes of the requests that a round left without an answer:
   *
   *     producer or client closed     all fail
   *     no session                    what was sent fails: sending again could append twice
   *     another try may help          all stay and are sent again, in order
   *     no answer for too long        all fail, what was sent as in doubt
   *     the session is gone, or
   *     the log refused for good      what is in doubt is resolved, the rest fails; if all that was sent is
   *                                   in the log, nothing does
   */
  async #repair(i: Interruption): Promise<void> {
    const { backlog } = this;
    if (this.#end.signal.aborted) i = { error: this.#end.signal.reason };
    const { error } = i;
    this.#endStream(i);
    if (error.elsewhere) this.#route.elsewhere(error);
    // What timed out has no answer yet: none is taken once the round is over.
    if (this.#end.signal.aborted || error.reason === "TIMED_OUT" || error.reason === "CLOSED") {
      backlog.fail(i);
    } else if (!backlog.options.session) {
      for (let r = backlog.window.flight[0]; r && r.outcome !== "not_done"; r = backlog.window.flight[0]) {
        this.#settleError(r, error.but({ outcome: "maybe_done" }));
      }
      if (!error.again) backlog.fail(i);
    } else if (error.endsSession) {
      await this.#resolve(false);
      const doubtful = backlog.window.doubtful();
      backlog.continueOrFail(i);
      if (doubtful) backlog.stop(error);
      else this.session.forget();
    } else if (!error.again) {
      await this.#resolve(true);
      backlog.continueOrFail(i);
    }
  }

  /**
   * Takes note of what the stream that ended has sent: it may be in the log, unless an answer says more.
   * Of the request that was refused the refusal does, and in a session that has ended nothing sent behind
   * it can be in the log.
   */
  #endStream({ error, refused }: Interruption): void {
    const { window } = this.backlog;
    for (const r of window.flight.slice(0, window.sent)) {
      if (r === refused) r.outcome = worst(r.outcome, error.outcome);
      else if (!refused || !error.endsSession) r.outcome = worst(r.outcome, "maybe_done");
    }
    window.reset();
  }

  /**
   * Asks the log what became of the requests in doubt. Those that are in it get their offsets. The first
   * that never will be clears those behind it too, as a session has no gaps. What is not resolved in time,
   * or before a close, stays in doubt.
   */
  async #resolve(final: boolean): Promise<void> {
    const { recordTimeoutMs } = this.backlog.options;
    const waited = performance.now() - (this.backlog.oldest()?.accepted ?? performance.now());
    const late = recordTimeoutMs
      ? [AbortSignal.timeout(timed(Math.max(recordTimeoutMs - waited, resolveAtLeast)))]
      : [];
    const signal = AbortSignal.any([this.#end.signal, ...late]);
    await this.#resolveAll(final, signal).catch(() => {});
  }

  async #resolveAll(final: boolean, signal: AbortSignal): Promise<void> {
    const { backlog } = this;
    for (let r = backlog.window.flight[0]; r && r.outcome !== "not_done"; r = backlog.window.flight[0]) {
      const position = { logId: backlog.logId, session: r.session, epoch: r.epoch, next: r.first };
      const found = await this.#resolveOne(position, final, signal);
      if (backlog.session) backlog.session.epoch = Math.max(backlog.session.epoch, found.epoch);
      if (found.state === "never") {
        for (const other of backlog.window.flight) other.outcome = "not_done"; // of all sendings together
      }
      if (found.state !== "committed") return;
      // A large request may be in the log in pieces: the last record says whether it is in one.
      let last = found;
      if (r.count > 1) {
        last = await this.#resolveOne({ ...position, next: r.first + r.count - 1 }, final, signal);
      }
      if (last.state !== "committed") return;
      this.#takeOffsets(r, { firstOffset: found.offset, endOffset: last.offset + 1, ranges: [] });
    }
  }

  /** Asks until the answer is not "on its way". */
  async #resolveOne(at: Position, final: boolean, signal: AbortSignal): Promise<Resolution> {
    for (const pauses = new Pauses(); ; await pauses.wait(undefined, signal)) {
      const found = await this.#admin.resolve(this.log, at, { final, signal });
      if (found.state !== "pending") return found;
    }
  }

  /** Ends rounds that take too long, and leaves a leader that has fallen silent. */
  async #watch(): Promise<void> {
    const { window, options, lastSign } = this.backlog;
    const now = performance.now();
    const oldest = this.backlog.oldest();
    if (options.recordTimeoutMs && oldest && now - oldest.accepted > options.recordTimeoutMs) {
      const message = `no answer within ${options.recordTimeoutMs} ms`;
      this.#interrupt({ error: new StrandlineError("TIMED_OUT", message, { retryable: true }) });
    }
    const first = window.oldest();
    if (first && now - Math.max(lastSign, first.sent) > suspectAfter) await this.#suspect();
  }

  /**
   * Ends the round if the node that has our requests is silent and another leads by now. Should the others
   * be wrong, that one says so, and what was sent again is recognised.
   */
  async #suspect(): Promise<void> {
    const { signal } = this.#over;
    const node = this.#route.tried?.address;
    // Who is believed to lead does not matter: a call may have found that out meanwhile.
    const leader = node === undefined ? undefined : await this.calls.newerLeader(this.log, node);
    if (leader !== undefined && !signal.aborted) this.#interrupt({ error: silent(leader) });
  }

  /** Keeps the lease of a session that is idle. */
  async #keep(): Promise<void> {
    const error = await this.session.keep(this.#end.signal);
    if (error?.endsSession) this.#interrupt({ error });
  }
}
