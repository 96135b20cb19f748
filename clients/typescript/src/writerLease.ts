import { type Bound, type Calls, methods } from "./calls.js";
import { cancelled, fromRpc, invalid, StrandlineError } from "./errors.js";
import { KeepWriterRequest, ReleaseWriterRequest } from "./generated/strandline/v1/log.js";
import { Renewed } from "./renewed.js";
import { sleep, timed } from "./wait.js";
import { grantFromWire, leaseRequest, type WriterClaim, type WriterGrant } from "./writers.js";

/**
 * How long, in milliseconds, one call waits in line. Whoever has left the line for longer than it takes to call again
 * has lost its place.
 */
const waitMs = 10_000;

/**
 * Lies, in milliseconds, between calls for one name: two programs that have it would take the lease, or the place in
 * line, from each other as fast as they can call.
 */
const pauseMs = () => timed(100 + 900 * Math.random());

/** Ends a writer lease. An earlier try may have done so: then the refusal is about its own effect. */
export async function releaseWriter(calls: Calls, request: ReleaseWriterRequest, signal?: AbortSignal): Promise<void> {
  try {
    await calls.toLeader(request.log, methods.releaseWriter, request, signal);
  } catch (error) {
    const { outcome, reason } = error as StrandlineError;
    if (outcome === "not_done" || reason !== "FENCED") throw error;
  }
}

/**
 * The writer lease of a log, which this program has and renews three times in each lease. Made by
 * {@link Client.leaseWriter}; the end of an `await using` releases it, as close does.
 *
 * Its error is FENCED if the lease has ended and another program may have it; PERMISSION_DENIED or UNAUTHENTICATED if
 * this program may no longer renew it.
 */
export class WriterLease extends Renewed {
  #grant: WriterGrant | undefined;
  #until = 0;
  #handing = 0; // handovers that are under way, which say how the lease ends

  /** @internal */
  constructor(
    calls: Calls,
    readonly log: string,
    /** The claim with which the lease was acquired. */
    readonly claim: WriterClaim,
  ) {
    super(calls);
  }

  /** @internal */
  async open(signal?: AbortSignal): Promise<this> {
    const { calls, log, claim } = this;
    const { leaseMs } = claim;
    const name = this.#name;
    // Another program of the name may have taken the lease.
    if (calls.unreleased.has(name)) await sleep(pauseMs(), signal);
    for (let logId = 0; ; ) {
      const began = performance.now();
      const request = leaseRequest(log, logId, claim, waitMs);
      const answer = await calls.toLeader(log, methods.leaseWriter, request, signal, true);
      logId = answer.logId;
      if (answer.writerTerm !== 0) {
        this.#grant = grantFromWire(answer);
        this.#until = began + leaseMs;
        break;
      }
      // Another program of the name has taken the place in line.
      if (performance.now() - began < waitMs / 2) await sleep(pauseMs(), signal);
      if (signal?.aborted) throw cancelled("not_done");
    }
    calls.unreleased.add(name);
    calls.kept.add(this);
    const { term: writerTerm, logId } = this.#grant;
    const kept = KeepWriterRequest.fromPartial({ log, logId, writerTerm });
    // It begins at once, so that the time in line does not count against leftMs.
    void this.renew(leaseMs, 0, "FENCED", async (ended) => {
      const sent = performance.now();
      await calls.renew(log, methods.keepWriter, kept, leaseMs, ended);
      this.#until = sent + leaseMs;
    });
    return this;
  }

  protected override lost(error: StrandlineError): void {
    // What a renewal, or another handover, finds during a handover is the effect of that, or the next renewal finds it
    // again.
    if (!(this.#handing > 0 && error.reason === "FENCED")) this.end(error);
  }

  /**
   * The writer term that was granted with the lease, for {@link ProducerOptions.writerTerm}: whatever this program
   * believes, no record with it follows a record of a newer one.
   */
  get term(): number {
    return this.#grant?.term ?? 0;
  }

  /** The end of the log when the term began: all records of older writers are below it. */
  get endOffset(): number {
    return this.#grant?.end ?? 0;
  }

  /**
   * How long the lease lasts at least: one lease after the newest renewal that succeeded was sent, or before this
   * program waited in line.
   */
  get leftMs(): number {
    return Math.max(0, this.#until - performance.now());
  }

  /**
   * Ends the lease: the next program in line gets it at once. If it fails, it may be called again; the lease is no
   * longer renewed.
   */
  async release({ signal }: Bound = {}): Promise<void> {
    this.end(undefined);
    try {
      await this.#release("", signal);
    } catch (error) {
      if (fromRpc(error).reason !== "FENCED") throw error;
    }
  }

  /**
   * Ends the lease in favor of the program in line that has a name. PRECONDITION: none has it, and this program keeps
   * the lease. FENCED: the lease had ended.
   */
  async handOver(to: string, { signal }: Bound = {}): Promise<void> {
    if (!to) throw invalid("a handover must name the next holder; release ends the lease without one");
    this.#handing++;
    let failure: unknown;
    try {
      await this.#release(to, signal);
      this.end(undefined);
      return;
    } catch (error) {
      failure = error;
    } finally {
      this.#handing--;
    }
    if (failure instanceof StrandlineError && failure.reason === "FENCED") this.lost(failure);
    throw failure;
  }

  async #release(to: string, signal?: AbortSignal): Promise<void> {
    const request = { log: this.log, logId: this.#grant?.logId ?? 0, writerTerm: this.term, to };
    await releaseWriter(this.calls, ReleaseWriterRequest.fromPartial(request), signal);
    this.calls.unreleased.delete(this.#name);
  }

  /** The lease among those that were not released. */
  get #name(): string {
    return JSON.stringify([this.log, this.claim.name]);
  }

  /** Releases the lease, in the time of one lease. If that fails, the lease ends when it runs out. */
  async close(): Promise<void> {
    if (this.ended) return;
    await this.release({ signal: AbortSignal.timeout(timed(this.claim.leaseMs)) }).catch(() => {});
  }

  /** Releases the lease at the end of an `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
