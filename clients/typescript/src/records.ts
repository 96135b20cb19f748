import { span, whole } from "./check.js";
import { invalid } from "./errors.js";
import type { Duration } from "./generated/google/protobuf/duration.js";
import type { Timestamp } from "./generated/google/protobuf/timestamp.js";
import {
  LogConfig as WireConfig,
  Durability as WireDurability,
  Hold as WireHold,
  LogInfo as WireInfo,
  type Record as WireRecord,
} from "./generated/strandline/v1/log.js";

/** About what a record takes beside its key and value. */
const overhead = 24;

/** Bounds one record: its key, value and headers together. It also bounds what appendBatch takes. */
export const maxRecordBytes = 16 << 20;

/** A named value beside a record. */
export interface Header {
  key: string;
  value?: Uint8Array | undefined;
}

/** What is appended. A key or value that is left out is Kafka's null, which differs from an empty one. */
export interface NewRecord {
  value?: Uint8Array | undefined;
  key?: Uint8Array | undefined;
  headers?: Header[];
  /** The producer's time; the server's where it is left out. */
  timestamp?: Date;
}

/** One record of a log. */
export interface Record extends NewRecord {
  /** Where it is in its log. */
  offset: number;
  value?: Buffer | undefined;
  key?: Buffer | undefined;
  headers: { key: string; value?: Buffer | undefined }[];
  timestamp: Date;
}

/** What an append takes: a record, or only its value. */
export type Appendable = NewRecord | Uint8Array | string;

/** A copy: what is given belongs to the caller, who may change it before it is sent. */
export function buffer(bytes: Uint8Array | undefined): Buffer | undefined {
  if (bytes === undefined || bytes === null) return undefined;
  if (!(bytes instanceof Uint8Array)) throw invalid(`a key, value or pointer is a Uint8Array, not a ${typeof bytes}`);
  return Buffer.from(bytes);
}

export function toWire(record: Appendable): WireRecord {
  if (typeof record === "string") record = { value: Buffer.from(record) };
  else if (record instanceof Uint8Array) record = { value: record };
  else if (typeof record !== "object" || record === null || Array.isArray(record)) {
    throw invalid(`a record is an object, a Uint8Array or a string, not ${record === null ? "null" : typeof record}`);
  }
  const { key, value, headers = [], timestamp } = record;
  const named = headers.length > 0 ? headers.map(headerToWire) : [];
  return { offset: 0, key: buffer(key), value: buffer(value), headers: named, timestamp: timestampOf(timestamp) };
}

function headerToWire({ key, value }: Header): { key: string; value: Buffer | undefined } {
  if (typeof key !== "string") throw invalid(`the name of a header is a string, not a ${typeof key}`);
  return { key, value: buffer(value) };
}

/** Turns a received record into what users get, in place: reads are faster without a copy of each. */
export function fromWire(wire: WireRecord): Record {
  const record = wire as unknown as Record;
  record.timestamp = dateOf(wire.timestamp) as Date;
  return record;
}

/** About how many bytes a record takes on the wire. */
export function sizeOf(record: Pick<Record, "key" | "value" | "headers">): number {
  let size = overhead + (record.value?.length ?? 0) + (record.key?.length ?? 0);
  for (const { key, value } of record.headers) size += 12 + 3 * key.length + (value?.length ?? 0);
  return size;
}

/** The part of a size that limits are about. */
export function payload(size: number, records: number): number {
  return size - overhead * records;
}

/** What an acknowledgement rests on: fsync, or memory, of a majority of replicas. */
export type Durability = "disk" | "memory";

/** What a log is created with, and can be changed to. */
export interface LogConfig {
  durability: Durability;
  /** Records older than this are trimmed; undefined: never. */
  retentionMs: number | undefined;
  /** The oldest records beyond this are trimmed; 0: never. */
  retentionBytes: number;
  /** How many nodes are to hold it; 0: three, or as many as there are. */
  replicas: number;
  /** Once a writer term has been acquired, appends without one are refused. */
  fenced: boolean;
  /** Of the configuration that was read; configureLog refuses another one. 0: whichever there is. */
  revision: number;
  /**
   * The log's own. undefined leaves it to configureLog as it is; {} takes it away, so that the one of the
   * longest prefix of the log's name holds.
   */
  rule?: PlacementRule | undefined;
}

/**
 * Where the voters of a log are to be, where its leader and where read replicas, by the labels of nodes:
 * KEY=VALUE, such as dc=fra. One that the nodes cannot keep is refused with PRECONDITION.
 */
export interface PlacementRule {
  /**
   * The key of a label: of three values or more none has more than half of the voters, of two both have
   * one. Empty: voters need not be spread.
   */
  spread?: string;
  /** Voters are on nodes with one of these labels only; empty: on any. */
  votersIn?: string[];
  /** Voters are on no node with one of these labels. */
  votersNotIn?: string[];
  /** Where the leader is to be, the best first. One voter at least is in the first. */
  leaderHomes?: string[];
  /** Beside the voters, on other nodes. */
  readReplicas?: ReadReplicas[];
}

/** Read replicas on nodes with a label. They follow the log for ever, count for no majority, and serve readers. */
export interface ReadReplicas {
  /** KEY=VALUE. */
  label: string;
  /** 1 to 16; 16 at the most of one log. */
  count: number;
}

/** Where one replica of a log can be reached. */
export interface ReplicaAddress {
  node: string;
  address: string;
  leader: boolean;
  /** It follows for ever, and counts for no majority. */
  readReplica: boolean;
  /** Of the node: KEY=VALUE. */
  labels: string[];
  /** How many records it has less than the leader; undefined: not known. Only Admin.info sets it. */
  lag?: number | undefined;
}

/** While it is there, nothing trims the records of its log from offset on. */
export interface Hold {
  /** Names it within its log: 1 to 128 bytes of text. */
  name: string;
  offset: number;
  /** For people: who to ask before it is released. At most 256 bytes. */
  owner: string;
  /** How long it stays without being set or kept, 1 s to 30 days; undefined: until it is released. */
  leaseMs: number | undefined;
  /** Once what it keeps takes more, the log's leader breaks it; 0: no bound. */
  maxBytes: number;
  /** Once the oldest record that it keeps is older, the log's leader breaks it. */
  maxAgeMs: number | undefined;
  /**
   * Where the state lies that the records below offset have made, for readers that come too late: up to
   * 4 KiB that the log does not look at.
   */
  pointer: Uint8Array;
  /** What the records from offset on take, on the node that answered {@link Admin.info}. */
  keptBytes: number;
  /**
   * Who set or moved it last, such as user/alice, as {@link Admin.info} knows. Empty: the caller may not set
   * holds of the log, or it is not known, as where rights are not enforced.
   */
  principal: string;
}

export function holdToWire({ leaseMs, maxAgeMs, pointer, ...same }: Partial<Hold>): WireHold {
  whole("offset of the hold", same.offset);
  whole("maxBytes of the hold", same.maxBytes);
  whole("keptBytes of the hold", same.keptBytes);
  span("leaseMs of the hold", leaseMs);
  span("maxAgeMs of the hold", maxAgeMs);
  const bytes = buffer(pointer) ?? Buffer.alloc(0);
  return WireHold.fromPartial({ ...same, pointer: bytes, lease: duration(leaseMs), maxAge: duration(maxAgeMs) });
}

export function holdFromWire({ lease, maxAge, ...same }: WireHold): Hold {
  return { ...same, leaseMs: milliseconds(lease), maxAgeMs: milliseconds(maxAge) };
}

/**
 * A log as the node that answered knows it. Offsets in [start, end) can be read. A number above 2^53 is the
 * nearest one that a number can be.
 */
export interface LogInfo {
  name: string;
  id: number;
  config: LogConfig;
  created: Date | undefined;
  start: number;
  end: number;
  bytesUsed: number;
  bytesFree: number;
  writerTerm: number;
  openSessions: number;
  /** The address of the leader; empty: not known. */
  leader: string;
  /** It takes no more appends. */
  sealed: boolean;
  /** Empty, or why the log cannot be served there. */
  problem: string;
  /** No node that holds the log has answered: offsets and sizes say nothing. */
  unknown: boolean;
  replicas: ReplicaAddress[];
  /** By name. Only {@link Admin.info} sets them. */
  holds: Hold[];
}

export function duration(ms: number | undefined): Duration | undefined {
  if (ms === undefined) return undefined;
  const seconds = Math.floor(ms / 1000);
  return { seconds, nanos: Math.floor((ms - seconds * 1000) * 1e6) };
}

export function milliseconds(d: Duration | undefined): number | undefined {
  return d && d.seconds * 1000 + d.nanos / 1e6;
}

const firstTime = Date.parse("0001-01-01T00:00:00Z");
const lastTime = Date.parse("9999-12-31T23:59:59.999Z");

/** Refuses what servers refuse: with a record, they would refuse all that share its request. */
export function timestampOf(date: Date | undefined): Timestamp | undefined {
  if (date === undefined) return undefined;
  if (!(date instanceof Date)) throw invalid(`a time is a Date, not a ${typeof date}`);
  const ms = date.getTime();
  if (!(ms >= firstTime && ms <= lastTime)) throw invalid("a time must be in the years 1 to 9999");
  const seconds = Math.floor(ms / 1000);
  return { seconds, nanos: (ms - seconds * 1000) * 1e6 };
}

export function dateOf(t: Timestamp | undefined): Date | undefined {
  return t && new Date(t.seconds * 1000 + t.nanos / 1e6);
}

export function configToWire(config: Partial<LogConfig>): WireConfig {
  const { durability, retentionMs, ...same } = config;
  span("retentionMs", retentionMs);
  for (const name of ["retentionBytes", "replicas", "revision"] as const) whole(name, same[name]);
  for (const { count } of same.rule?.readReplicas ?? []) whole("count of the read replicas", count);
  return WireConfig.fromPartial({
    ...same,
    durability: durability === "memory" ? WireDurability.DURABILITY_MEMORY : WireDurability.DURABILITY_DISK,
    retention: duration(retentionMs),
  });
}

export function infoFromWire(wire: WireInfo | undefined): LogInfo {
  const { startOffset, endOffset, config, leaderTerm: _, ...same } = WireInfo.fromPartial(wire ?? {});
  const { durability, retention, ...rest } = WireConfig.fromPartial(config ?? {});
  const memory = durability === WireDurability.DURABILITY_MEMORY;
  return {
    ...same,
    config: { ...rest, durability: memory ? "memory" : "disk", retentionMs: milliseconds(retention) },
    start: startOffset,
    end: endOffset,
    created: dateOf(same.created),
    holds: same.holds.map(holdFromWire),
  };
}

/** Makes appends at most once and in order. A producer opens and keeps its own. */
export interface Session {
  /** 64 bits, in decimal. */
  id: string;
  epoch: number;
  leaseMs: number;
  logId: number;
}

/** What became of one record. */
export type ResolveState =
  /** in the log */
  | "committed"
  /** on its way; ask again */
  | "pending"
  /** not in the log, but a request still under way may bring it */
  | "not now"
  /** not in the log, and it never will be */
  | "never"
  /** below the low-water mark or too old; the log no longer knows */
  | "forgotten";

/** The outcome of one record of a session. */
export interface Resolution {
  state: ResolveState;
  /** Where the record is, if committed. */
  offset: number;
  /** The session's, now. */
  epoch: number;
  /**
   * The first sequence of the epoch asked for that is not in the log; all below are in it. undefined: the
   * log does not know the epoch any more.
   */
  next: number | undefined;
}
