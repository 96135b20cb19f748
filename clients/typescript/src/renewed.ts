import type { Calls } from "./calls.js";
import { fromRpc, type Reason, type StrandlineError } from "./errors.js";
import { sleep, timed } from "./wait.js";

/** Errors of a renewal after which there is nothing to renew, whatever is renewed. */
const ends: Reason[] = ["LOG_NOT_FOUND", "LOG_REPLACED", "PERMISSION_DENIED", "UNAUTHENTICATED", "CLOSED"];

/** What this program has for as long as it renews a lease: until it ends, or the client is closed. */
export abstract class Renewed {
  #error: StrandlineError | undefined;
  readonly #over = new AbortController();
  /** Resolves when it has ended, or was released or closed, with {@link error}. */
  readonly done: Promise<StrandlineError | undefined>;

  /** @internal */
  protected readonly calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.calls = calls;
    this.done = new Promise((resolve) => {
      this.#over.signal.addEventListener("abort", () => resolve(this.#error), { once: true });
    });
  }

  /** Whether it is known to have ended, or was released or closed: nobody renews it. */
  get ended(): boolean {
    return this.#over.signal.aborted;
  }

  /** Why it has ended. Undefined before, and after release and close. */
  get error(): StrandlineError | undefined {
    return this.#error;
  }

  /** @internal */
  end(error: StrandlineError | undefined): void {
    if (this.ended) return;
    this.#error = error;
    this.calls.kept.delete(this);
    this.#over.abort();
  }

  /** Renews after so long, and again after each third of the lease, until it has ended. @internal */
  protected async renew(
    leaseMs: number,
    afterMs: number,
    gone: Reason,
    act: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
    const { signal } = this.#over;
    for (let wait = afterMs; ; wait = leaseMs / 3) {
      if (wait > 0) await sleep(timed(wait), signal);
      if (this.ended) return;
      try {
        await act(signal);
      } catch (error) {
        const failure = fromRpc(error);
        if (failure.reason === gone || ends.includes(failure.reason as Reason)) this.lost(failure);
      }
    }
  }

  /** Ends it with what a renewal has found. @internal */
  protected lost(error: StrandlineError): void {
    this.end(error);
  }
}
