import { Admin } from "./admin.js";
import type { Backlog } from "./backlog.js";
import { type Calls, methods } from "./calls.js";
import { fromRpc, type StrandlineError } from "./errors.js";
import { KeepSessionRequest } from "./generated/strandline/v1/session.js";
import type { Session } from "./records.js";

/** The session of a producer, which places its records. */
export class ProducerSession {
  readonly #admin: Admin;
  /** When a node last renewed the lease, perhaps another one than that which has the requests. */
  #renewed = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly calls: Calls,
    private readonly log: string,
    private readonly backlog: Backlog,
  ) {
    this.#admin = new Admin(calls);
  }

  /**
   * Finds the log and begins its session. The outcome of an error is always not_done: a session that was
   * opened without an answer ends with its lease.
   */
  async open(signal?: AbortSignal): Promise<void> {
    const { backlog: b, log } = this;
    const { session, resume, leaseMs } = b.options;
    try {
      if (!session) {
        const info = await this.#admin.info(log, { signal });
        b.logId = info.id;
        this.calls.peers.prefer(log, info.leader);
      } else if (resume?.session) {
        const { session: id, epoch, logId, next } = resume;
        await this.#admin.keepSession(log, { id, logId }, { signal });
        b.session = { id, epoch, leaseMs, logId };
        Object.assign(b, { logId, next });
      } else {
        b.session = await this.#admin.openSession(log, { leaseMs, logId: resume?.logId ?? 0, signal });
        b.logId = b.session.logId;
      }
    } catch (error) {
      throw fromRpc(error).but({ outcome: "not_done" });
    }
  }

  /** Opens a session if there is none. */
  async reopen(signal: AbortSignal): Promise<void> {
    const { backlog: b } = this;
    if (b.session || !b.options.session) return;
    b.session = await this.#admin.openSession(this.log, { leaseMs: b.options.leaseMs, logId: b.logId, signal });
    Object.assign(b, { next: 0, lastSign: performance.now() });
  }

  /**
   * Renews the lease if a third of it has passed without an answer. An error is about the session that the
   * producer has now.
   */
  async keep(signal: AbortSignal): Promise<StrandlineError | undefined> {
    const { session, options, lastSign } = this.backlog;
    const now = performance.now();
    if (!session || now - Math.max(lastSign, this.#renewed) <= options.leaseMs / 3) return undefined;
    const request = KeepSessionRequest.fromPartial({ log: this.log, sessionId: session.id, logId: session.logId });
    try {
      await this.calls.renew(this.log, methods.keepSession, request, options.leaseMs, signal);
    } catch (error) {
      return this.backlog.session?.id === session.id ? fromRpc(error) : undefined;
    }
    this.#renewed = now;
    return undefined;
  }

  /** Ends the producer's part in its session: the next round opens a new one. */
  forget(): Session | undefined {
    const { session } = this.backlog;
    Object.assign(this.backlog, { session: undefined, next: 0 });
    return session;
  }

  async close(signal?: AbortSignal): Promise<void> {
    const session = this.forget();
    if (session) await this.#admin.closeSession(this.log, session, { signal });
  }
}
