import { span } from "./check.js";
import {
  LeaseWriterRequest,
  type LeaseWriterResponse,
  type WriterState as WireState,
} from "./generated/strandline/v1/log.js";
import { buffer, dateOf, duration, milliseconds } from "./records.js";

/** A program that wants the writer lease of a log. */
export interface WriterClaim {
  /**
   * Tells the program from others that want the lease: 1 to 128 bytes of text. If the program that has the lease has
   * this name, the lease passes to this one at once.
   */
  name: string;
  /** How long the lease lasts without a sign of life of its holder, 1 s to 1 h. */
  leaseMs: number;
  /** For those who watch, such as the address of the program: up to 4 KiB. */
  payload?: Uint8Array | undefined;
}

/** Which program has the writer lease of a log. */
export interface WriterState {
  /** The newest writer term of the log. It was granted with the lease, if that is held. */
  term: number;
  /** Programs in line. */
  waiting: number;
  /** The program that has the lease. Undefined: none has it, and the rest is undefined too. */
  holder: (WriterClaim & { payload: Buffer }) | undefined;
  /** When the lease was granted, by the clock of the log's leader. */
  since: Date | undefined;
  /** How long it lasts without another sign of life. */
  leftMs: number | undefined;
}

/** The answer to a program that wants the writer lease. */
export interface WriterGrant {
  /** The granted writer term, for {@link ProducerOptions.writerTerm}; 0: another program has the lease, see state. */
  term: number;
  /** The end of the log when the term began: all records of older writers are below it. */
  end: number;
  logId: number;
  state: WriterState;
}

/** Asks for the writer lease of a log. */
export function leaseRequest(log: string, logId: number, claim: WriterClaim, waitMs: number): LeaseWriterRequest {
  const { name, leaseMs } = claim;
  span("leaseMs", leaseMs);
  const payload = buffer(claim.payload) ?? Buffer.alloc(0);
  const wait = waitMs ? waitMs : undefined;
  span("waitMs", wait);
  return LeaseWriterRequest.fromPartial({ log, logId, name, payload, lease: duration(leaseMs), wait: duration(wait) });
}

export function stateFromWire(wire: WireState | undefined): WriterState {
  const { writerTerm: term = 0, waiting = 0 } = wire ?? {};
  if (!wire?.name) return { term, waiting, holder: undefined, since: undefined, leftMs: undefined };
  const { name, payload, lease, since, left } = wire;
  const holder = { name, leaseMs: milliseconds(lease) ?? 0, payload };
  return { term, waiting, holder, since: dateOf(since), leftMs: milliseconds(left) ?? 0 };
}

export function grantFromWire(wire: LeaseWriterResponse): WriterGrant {
  return { term: wire.writerTerm, end: wire.endOffset, logId: wire.logId, state: stateFromWire(wire.state) };
}
