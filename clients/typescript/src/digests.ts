import { createHash } from "node:crypto";
import { type Bound, type Calls, methods, type Route, ToDialled, ToLeader } from "./calls.js";
import { whole } from "./check.js";
import { fromRpc, invalid, StrandlineError } from "./errors.js";
import { DigestRequest, type DigestResponse, ProveRequest, type ProveResponse } from "./generated/strandline/v1/log.js";
import type { Record } from "./records.js";

/**
 * One hash of all records of a log below an offset: equal on every replica, and in a copy that has the same batches
 * at the same offsets.
 */
export interface Digest {
  /** In hexadecimal digits. */
  hash: string;
  /** The offset as of which it is. */
  at: number;
  /** Covered are the records from here to covered: whole batches. It is above 0 where some are older than digests. */
  from: number;
  covered: number;
  batches: number;
  /** Of the log, as end, as the node that answered knew it. */
  start: number;
  end: number;
}

/** Where a digest or a proof comes from. */
export interface DigestOptions extends Bound {
  /**
   * Of what the replica of the first address that answers knows to be committed, which may be less than others do;
   * that needs no leader.
   */
  known?: boolean | undefined;
}

const hashBytes = 32;
const headerBytes = 61; // of a batch
const contentBegins = 21;
const magic = 2;
const logAppendTime = 8; // in its attributes: its records have the time when it was appended, its newest
const codecs = ["none", "gzip", "snappy", "lz4", "zstd"];

function unproven(message: string): StrandlineError {
  return new StrandlineError("UNPROVEN", message);
}

function sha256(...parts: Uint8Array[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** A follower would answer of its own replica. */
function routeOf(calls: Calls, log: string, known: boolean | undefined): Route {
  return known ? new ToDialled(calls.peers) : new ToLeader(calls, log, true);
}

export async function digest(
  calls: Calls,
  log: string,
  at: number | undefined,
  { known, signal }: DigestOptions,
): Promise<Digest> {
  whole("at", at);
  const request = DigestRequest.fromPartial({ log, at, allowStale: known ?? false });
  const ask = (to: Parameters<Parameters<Calls["by"]>[1]>[0]) =>
    calls.answered(to, log, methods.digest, request, !known, signal);
  const found: DigestResponse = await asking(calls.by(routeOf(calls, log, known), ask, signal));
  if (found.digest.length !== hashBytes) {
    throw new StrandlineError("CORRUPT", "the server answered with a digest of the wrong length");
  }
  const { from, covered, batches, startOffset: start, endOffset: end } = found;
  return { hash: found.digest.toString("hex"), at: found.at, from, covered, batches, start, end };
}

export async function prove(
  calls: Calls,
  log: string,
  offset: number,
  trusted: Pick<Digest, "hash" | "at">,
  { known, signal }: DigestOptions,
): Promise<Record> {
  whole("offset", offset);
  whole("at", trusted.at);
  if (typeof trusted.hash !== "string" || !/^[0-9a-f]{64}$/i.test(trusted.hash)) {
    throw invalid("the hash of a digest must have 64 hexadecimal digits");
  }
  const request = ProveRequest.fromPartial({ log, offset, at: trusted.at, allowStale: known ?? false });
  const ask = (to: Parameters<Parameters<Calls["by"]>[1]>[0]) =>
    calls.answered(to, log, methods.prove, request, !known, signal);
  const found: ProveResponse = await asking(calls.by(routeOf(calls, log, known), ask, signal));
  check(found.batch, found.number, found.digest?.batches ?? 0, found.path, Buffer.from(trusted.hash, "hex"));
  return recordOf(found.batch, offset);
}

/** A question has no effect. */
async function asking<A>(answer: Promise<A>): Promise<A> {
  try {
    return await answer;
  } catch (error) {
    throw fromRpc(error).but({ outcome: "not_done" });
  }
}

/**
 * Fails with UNPROVEN unless a batch lies at its base offset in the log whose digest is root. The hash covers all of
 * the batch but its place, which the leaf has too.
 */
export function check(batch: Buffer, number: number, batches: number, path: Uint8Array[], root: Buffer): void {
  if (batch.length < headerBytes || batch.readInt32BE(8) !== batch.length - 12 || batch[16] !== magic) {
    throw unproven("the server sent something other than a batch");
  }
  if (!(number < batches)) throw unproven(`the server names batch ${number} of ${batches}`);
  let found = sha256(Buffer.of(0), batch.subarray(0, 8), sha256(batch.subarray(contentBegins)));
  // As RFC 9162 walks up the tree.
  let at = BigInt(number);
  let last = BigInt(batches) - 1n;
  for (const beside of path) {
    if (last === 0n || beside.length !== hashBytes) throw unproven("the proof has a wrong number of hashes");
    if (at % 2n === 1n || at === last) {
      found = sha256(Buffer.of(1), beside, found);
      while (at % 2n === 0n && at > 0n) [at, last] = [at / 2n, last / 2n];
    } else {
      found = sha256(Buffer.of(1), found, beside);
    }
    [at, last] = [at / 2n, last / 2n];
  }
  if (last !== 0n || !found.equals(root)) {
    throw unproven(`under the digest there is no such batch at offset ${batch.readBigInt64BE(0)}`);
  }
}

/** The record of a batch that has been proved. */
export function recordOf(batch: Buffer, offset: number): Record {
  const index = BigInt(offset) - batch.readBigInt64BE(0);
  if (index < 0n || index >= batch.readInt32BE(57)) throw unproven("the server proved a different batch");
  const codec = batch.readInt16BE(contentBegins) & 7;
  if (codec !== 0) {
    const name = codecs[codec] ?? `codec ${codec}`;
    const message = `the proof is valid, but this client cannot decompress ${name}`;
    throw new StrandlineError("UNSUPPORTED", message);
  }
  const encoded = new Encoded(batch);
  for (let n = 0n; n < index; n++) encoded.skip(encoded.number());
  const record = encoded.record(offset, batch.readBigInt64BE(27));
  const appended = (batch.readInt16BE(contentBegins) & logAppendTime) !== 0;
  return appended ? { ...record, timestamp: new Date(Number(batch.readBigInt64BE(35))) } : record;
}

/** Reads the records of a batch. */
class Encoded {
  #at = headerBytes;

  constructor(private readonly data: Buffer) {}

  #varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.data[this.#at++];
      if (byte === undefined) break;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
    }
    throw unproven("the records of the batch cannot be read");
  }

  number(): number {
    return Number(this.#varint());
  }

  skip(size: number): Buffer {
    if (size < 0 || this.#at + size > this.data.length) throw unproven("the records of the batch cannot be read");
    this.#at += size;
    return this.data.subarray(this.#at - size, this.#at);
  }

  #bytes(): Buffer | undefined {
    const size = this.number();
    return size === -1 ? undefined : this.skip(size);
  }

  record(offset: number, baseTime: bigint): Record {
    this.number(); // the length
    this.skip(1); // attributes
    const timestamp = new Date(Number(baseTime + this.#varint()));
    this.number(); // the offset, from that of the batch
    const key = this.#bytes();
    const value = this.#bytes();
    const headers = [];
    for (let left = this.number(); left > 0; left--) {
      headers.push({ key: this.#bytes()?.toString() ?? "", value: this.#bytes() });
    }
    return { offset, timestamp, key, value, headers };
  }
}
