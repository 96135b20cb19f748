import type { Bound, Calls } from "./calls.js";
import { methods } from "./calls.js";
import { closed, fromRpc } from "./errors.js";
import { KeepHoldRequest, ReadPosition, ReleaseHoldRequest, SetHoldRequest } from "./generated/strandline/v1/log.js";
import { buffer, type Hold, holdToWire } from "./records.js";
import { Renewed } from "./renewed.js";

/** Where a hold is put: undefined: at its offset. */
export type Place = "start" | "end" | undefined;

/** What sets a hold. */
export function setHoldRequest(log: string, logId: number, hold: Partial<Hold>, at: Place): SetHoldRequest {
  const position = at === "start" ? ReadPosition.READ_POSITION_START : ReadPosition.READ_POSITION_TAIL;
  return SetHoldRequest.fromPartial({ log, logId, hold: holdToWire(hold), position: at && position });
}

/**
 * A hold that this program has set and, if it has a lease, renews after each third of it until release or close: a
 * program that dies keeps nothing for longer than the lease. Made by {@link Client.hold}; the end of a `using` closes
 * it.
 *
 * Its error is HOLD_NOT_FOUND if it has expired, or was broken or released by others; PERMISSION_DENIED or
 * UNAUTHENTICATED if this program may not renew it any more, so that it ends with its lease.
 */
export class KeptHold extends Renewed {
  #hold: Hold;
  #logId = 0;
  #turn: Promise<unknown> = Promise.resolve(); // one move at a time

  /** @internal */
  constructor(
    calls: Calls,
    readonly log: string,
    hold: Partial<Hold> & { name: string },
  ) {
    super(calls);
    this.#hold = {
      offset: 0,
      owner: "",
      leaseMs: undefined,
      maxBytes: 0,
      maxAgeMs: undefined,
      pointer: Buffer.alloc(0),
      keptBytes: 0,
      principal: "",
      ...hold,
    };
  }

  async #set(hold: Hold, at: Place, signal?: AbortSignal): Promise<Hold> {
    const request = setHoldRequest(this.log, this.#logId, hold, at);
    const answer = await this.calls.toLeader(this.log, methods.setHold, request, signal);
    this.#logId = answer.logId;
    return { ...hold, offset: answer.offset };
  }

  /** @internal */
  async open(at: Place, signal?: AbortSignal): Promise<this> {
    this.#hold = await this.#set(this.#hold, at, signal);
    this.calls.kept.add(this);
    const { name, leaseMs } = this.#hold;
    if (leaseMs !== undefined) {
      const request = KeepHoldRequest.fromPartial({ log: this.log, logId: this.#logId, name });
      void this.renew(leaseMs, leaseMs / 3, "HOLD_NOT_FOUND", (ended) =>
        this.calls.renew(this.log, methods.keepHold, request, leaseMs, ended),
      );
    }
    return this;
  }

  /** The hold as it was set or moved last. */
  get hold(): Hold {
    return { ...this.#hold };
  }

  /**
   * Puts the hold at another offset with another pointer, in one step: what is below may go from then on. Once it has
   * ended this fails with {@link error}, or with CLOSED after release and close. {@link Client.hold} sets such a hold
   * anew, if the records from its offset on are still there.
   */
  move(offset: number, pointer: Uint8Array | undefined = undefined, { signal }: Bound = {}): Promise<void> {
    const moved = this.#turn.then(() => this.#move(offset, buffer(pointer) ?? Buffer.alloc(0), signal));
    this.#turn = moved.catch(() => {});
    return moved;
  }

  async #move(offset: number, pointer: Buffer, signal?: AbortSignal): Promise<void> {
    this.#check();
    const moved = await this.#set({ ...this.#hold, offset, pointer }, undefined, signal);
    this.#check(); // or else what was set just now would expire
    this.#hold = moved;
  }

  #check(): void {
    if (this.ended) throw this.error?.but({}) ?? closed("hold");
  }

  /** Ends the hold. If it fails, it may be called again; the lease is renewed no more. */
  async release({ signal }: Bound = {}): Promise<void> {
    this.close();
    const request = ReleaseHoldRequest.fromPartial({ log: this.log, logId: this.#logId, name: this.#hold.name });
    try {
      await this.calls.toLeader(this.log, methods.releaseHold, request, signal);
    } catch (error) {
      if (fromRpc(error).reason !== "HOLD_NOT_FOUND") throw error;
    }
  }

  /** Ends the renewals and leaves the hold as it is: it ends with its lease, if it has one. */
  close(): void {
    this.end(undefined);
  }

  /** Closes the hold at the end of a `using`. */
  [Symbol.dispose](): void {
    this.close();
  }
}
