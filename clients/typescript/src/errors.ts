import { status as codes, type Metadata } from "@grpc/grpc-js";
import { ErrorInfo, Status } from "./generated/status.js";
import { type Refusal, Hold as WireHold } from "./generated/strandline/v1/log.js";
import { type Hold, holdFromWire } from "./records.js";

/**
 * What is known of the effect of a call, over all its tries: certainly without effect, now and later;
 * perhaps done, now or yet to come ({@link Admin.resolve} settles an append in a session); or done,
 * although its result is not known.
 */
export type Outcome = "not_done" | "maybe_done" | "done";

const outcomes: readonly Outcome[] = ["not_done", "maybe_done", "done"];

/** Of two outcomes the one that holds: what is known never falls back. */
export function worst(a: Outcome, b: Outcome): Outcome {
  return outcomes.indexOf(a) < outcomes.indexOf(b) ? b : a;
}

/** A place in a session: what a program keeps to continue the session after a restart. */
export interface Position {
  logId: number;
  /** Its id, of 64 bits, in decimal; empty: none. */
  session: string;
  epoch: number;
  /** The sequence of the record; of a producer, that of the record accepted next. */
  next: number;
}

/** Why a call failed: docs/errors.md describes each. A server of a later version may give others. */
export type Reason =
  | "INVALID"
  | "TOO_LARGE"
  | "LOG_NOT_FOUND"
  | "LOG_EXISTS"
  | "LOG_REPLACED"
  | "OFFSET_TRIMMED"
  | "OFFSET_BEYOND_END"
  | "SESSION_EXPIRED"
  | "SESSION_NOT_FOUND"
  | "STALE_EPOCH"
  | "OUTCOME_FORGOTTEN"
  | "FENCED"
  | "END_MISMATCH"
  /** A record that the check of the append does not allow is in the log. */
  | "CONFLICT"
  /** The log can check from startOffset on, and not from before. */
  | "CHECK_TOO_OLD"
  | "FULL"
  | "BUSY"
  | "SEALED"
  | "CORRUPT"
  | "DATA_LOST"
  | "STALE"
  | "PRECONDITION"
  | "HELD"
  | "HOLD_NOT_FOUND"
  | "UNAUTHENTICATED"
  | "PERMISSION_DENIED"
  | "FILTER_INVALID"
  | "FILTER_FAILED"
  /** What a server sent does not prove that the record is in the log. */
  | "UNPROVEN"
  /** No node answered, or the connection broke. */
  | "UNREACHABLE"
  /** A record had no answer within the producer's recordTimeoutMs. */
  | "TIMED_OUT"
  /** The signal of the call was aborted first. */
  | "CANCELLED"
  /** The client, producer or reader has been closed. */
  | "CLOSED"
  /** A record before this one failed, and none slips ahead. `cause` is that error. */
  | "BEHIND_FAILED"
  | (string & {});

interface Facts {
  retryable?: boolean;
  outcome?: Outcome;
  facts?: Record<string, string>;
  position?: Position | undefined;
  hold?: Hold | undefined;
  cause?: unknown;
  lasting?: boolean;
}

const lastingTime = 500; // ms

/** The error of a call that reached, or tried to reach, a log. */
export class StrandlineError extends Error {
  /** What went wrong, for programs. */
  readonly reason: Reason;
  /**
   * The same call may succeed later or elsewhere. An append whose outcome is not `not_done` would then
   * be a second append.
   */
  readonly retryable: boolean;
  /** What is known of the effect. It means nothing for a call that only reads. */
  readonly outcome: Outcome;
  /** Of an append in doubt: where {@link Admin.resolve} finds out about it. */
  readonly position: Position | undefined;
  /**
   * HELD: the lowest hold, which keeps what was to be trimmed. OFFSET_TRIMMED: the highest that has a pointer,
   * if any: who has loaded what the pointer leads to can continue at its offset.
   */
  readonly hold: Hold | undefined;
  /** What else the server said, by name. */
  readonly facts: Readonly<Record<string, string>>;

  /** A node that cannot be reached will not be later either: its certificate is wrong. @internal */
  readonly lasting: boolean;

  /** @internal */
  constructor(reason: Reason, message: string, of: Facts = {}) {
    super(message, of.cause === undefined ? {} : { cause: of.cause });
    this.name = "StrandlineError";
    this.reason = reason;
    this.retryable = of.retryable ?? false;
    this.outcome = of.outcome ?? "not_done";
    this.position = of.position;
    this.hold = of.hold;
    this.facts = of.facts ?? {};
    this.lasting = of.lasting ?? false;
  }

  /** OFFSET_TRIMMED, DATA_LOST: the start of the log. CHECK_TOO_OLD: the least offset since which it can check. */
  get startOffset(): number {
    return this.#number("start_offset");
  }

  /** OFFSET_BEYOND_END, END_MISMATCH: the end of the log. */
  get endOffset(): number {
    return this.#number("end_offset");
  }

  /** STALE_EPOCH: the epoch of the session. */
  get epoch(): number {
    return this.#number("epoch");
  }

  /** FENCED: the term that holds the log. */
  get writerTerm(): number {
    return this.#number("writer_term");
  }

  /** LOG_REPLACED: the id of the log that has the name now. */
  get logId(): number {
    return this.#number("log_id");
  }

  /** TOO_LARGE: the limit. */
  get limit(): number {
    return this.#number("limit");
  }

  /** FILTER_FAILED, CONFLICT: that of the record. */
  get offset(): number {
    return this.#number("offset");
  }

  /**
   * CONFLICT: the key of the record at {@link offset}, which matches the check; undefined if it has none, or one
   * of more than 1 KiB.
   */
  get key(): Uint8Array | undefined {
    const { key, key_base64 } = this.facts;
    if (key !== undefined) return Buffer.from(key);
    return key_base64 === undefined ? undefined : Buffer.from(key_base64, "base64");
  }

  /** FILTER_INVALID, with column: the place in the expression, both from 1, in characters. */
  get line(): number {
    return this.#number("line");
  }

  get column(): number {
    return this.#number("column");
  }

  /** NOT_LEADER: the address of the leader, or empty. */
  get leader(): string {
    return this.facts.leader ?? "";
  }

  #number(name: string): number {
    const value = Number(this.facts[name] ?? 0);
    return Number.isSafeInteger(value) ? value : 0;
  }

  /** A copy with another outcome or position. @internal */
  but(changes: Facts): StrandlineError {
    const { retryable, outcome, facts, position, hold, cause, lasting } = this;
    const same = { retryable, outcome, facts, position, hold, cause, lasting };
    return new StrandlineError(this.reason, this.message, { ...same, ...changes });
  }

  /**
   * How long, in ms, to try again after this, of the time that a retry may take. After a lasting reason it is
   * longer than a connection that failed waits before the next attempt, so that the reason is one of now, and
   * certificates that were replaced count. @internal
   */
  within(retryTime: number): number {
    return this.lasting ? Math.min(lastingTime, retryTime) : retryTime;
  }

  /** Whether a producer repeats what was refused. FULL is for the application: only a trim helps. @internal */
  get again(): boolean {
    return (this.retryable || this.lasting) && this.reason !== "FULL";
  }

  /** Whether another node, or another connection, may do better. @internal */
  get elsewhere(): boolean {
    return this.again && this.reason !== "BUSY" && this.reason !== "UNAUTHENTICATED";
  }

  /** Whether a token was refused and there is another one. @internal */
  get renewed(): boolean {
    return this.retryable && this.reason === "UNAUTHENTICATED";
  }

  /** @internal */
  get endsSession(): boolean {
    return this.reason === "SESSION_EXPIRED" || this.reason === "SESSION_NOT_FOUND";
  }
}

export function invalid(message: string): StrandlineError {
  return new StrandlineError("INVALID", message);
}

export function unreachable(outcome: Outcome, message: string): StrandlineError {
  return new StrandlineError("UNREACHABLE", message, { retryable: true, outcome });
}

/** Says that a leader does not answer, and another one is there by now. */
export function silent(leader: string): StrandlineError {
  const message = `the leader is silent, and ${leader} leads now`;
  return new StrandlineError("NOT_LEADER", message, { retryable: true, outcome: "maybe_done", facts: { leader } });
}

export function closed(what: string, outcome: Outcome = "not_done"): StrandlineError {
  return new StrandlineError("CLOSED", `the ${what} is closed`, { outcome });
}

export function cancelled(outcome: Outcome): StrandlineError {
  return new StrandlineError("CANCELLED", "the signal of the call was aborted", { outcome });
}

/** The error of a record that waited behind one that failed. */
export function behind(first: StrandlineError, outcome: Outcome): StrandlineError {
  const message = `an append before it failed: ${first.reason}: ${first.message}`;
  return new StrandlineError("BEHIND_FAILED", message, { retryable: first.retryable, outcome, cause: first });
}

export function fromRefusal(refusal: Refusal): StrandlineError {
  return fromFacts(refusal.reason, refusal.message, refusal.metadata);
}

/** An error from the words of a server. What is missing is assumed to be bad. */
function fromFacts(reason: string, message: string, facts: Record<string, string>, hold?: Hold): StrandlineError {
  const outcome = outcomes.find((o) => o === facts.outcome) ?? "maybe_done";
  return new StrandlineError(reason, message, { retryable: facts.retryable === "true", outcome, facts, hold });
}

/**
 * The error of a call or a stream. Without an ErrorInfo of a log's it comes from something between, and
 * what it was about may be done.
 */
export function fromRpc(error: unknown): StrandlineError {
  if (error instanceof StrandlineError) return error;
  const { code, details = "", metadata } = error as { code?: codes; details?: string; metadata?: Metadata };
  if (typeof code !== "number") return unreachable("maybe_done", String(error));
  // A message that cannot be encoded: nothing was sent, and it will not be another time.
  if (details.startsWith("Request message serialization failure")) return invalid(details);
  for (const value of metadata?.get("grpc-status-details-bin") ?? []) {
    const found = fromDetails(value, details);
    if (found) return found;
  }
  switch (code) {
    case codes.CANCELLED:
    case codes.DEADLINE_EXCEEDED:
      return new StrandlineError("CANCELLED", details, { outcome: "maybe_done" });
    case codes.UNIMPLEMENTED:
      return new StrandlineError("UNSUPPORTED", details);
    case codes.RESOURCE_EXHAUSTED:
      return new StrandlineError("TOO_LARGE", details, { outcome: "maybe_done" });
  }
  const retryable = [codes.UNAVAILABLE, codes.ABORTED, codes.INTERNAL].includes(code);
  return new StrandlineError("UNREACHABLE", `${codes[code]}: ${details}`, { retryable, outcome: "maybe_done" });
}

/** The error that the details of a status describe; undefined if none of them is of a log. */
function fromDetails(status: string | Buffer, message: string): StrandlineError | undefined {
  if (typeof status === "string") return undefined;
  try {
    const { details } = Status.decode(status);
    const held = details.find(({ typeUrl }) => typeUrl.endsWith("/strandline.v1.Hold"));
    const hold = held && holdFromWire(WireHold.decode(held.value));
    for (const { typeUrl, value } of details) {
      if (!typeUrl.endsWith("/google.rpc.ErrorInfo")) continue;
      const info = ErrorInfo.decode(value);
      if (info.domain === "strandline.dev") return fromFacts(info.reason, message, info.metadata, hold);
    }
  } catch {
    // Bytes of somebody else.
  }
  return undefined;
}
