// Drives the TypeScript client as the scenarios say: one JSON object in each line, as the page
// clients/scenarios/README.md describes.
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Admin,
  type Check,
  Client,
  type ClientOptions,
  type Filter,
  type Hold,
  type KeptHold,
  type LogConfig,
  type LogInfo,
  type Record as LogRecord,
  type PlacementRule,
  type Position,
  type Producer,
  type Projection,
  type Reader,
  type ReadReplicas,
  StrandlineError,
  type WriterLease,
  type WriterState,
} from "../src/index.js";

interface Command {
  id: number;
  do: string;
  client: string;
  producer: string;
  reader: string;
  log: string;
  addresses: string[];
  values: string[];
  authority?: string;
  certificate?: string;
  key?: string;
  token?: string;
  token_function?: string;
  environment?: { [name: string]: string };
  at?: object;
  resume?: object;
  [name: string]: unknown;
}

function failed(error: unknown) {
  if (!(error instanceof StrandlineError)) {
    return { reason: "NOT_AN_ERROR_OF_THE_CLIENT", message: error instanceof Error ? error.stack : String(error) };
  }
  const { reason, message, retryable, outcome, position, startOffset, endOffset, writerTerm, leader, hold } = error;
  return {
    reason,
    message,
    retryable,
    outcome,
    start: startOffset,
    end: endOffset,
    epoch: position?.epoch ?? error.epoch,
    session: shownId(position?.session),
    sequence: position?.next ?? 0,
    log_id: position?.logId ?? error.logId,
    writer_term: writerTerm,
    leader,
    offset: error.offset,
    key: error.key === undefined ? null : Buffer.from(error.key).toString(),
    line: error.line,
    column: error.column,
    hold: hold && holding(hold),
  };
}

function shownPointer(pointer: Uint8Array) {
  const bytes = Buffer.from(pointer);
  return { pointer: bytes.toString(), pointer_hex: bytes.toString("hex") };
}

function holding({ name, offset, owner, leaseMs = 0, maxBytes, maxAgeMs = 0, pointer, principal }: Hold) {
  const bounds = { lease_ms: leaseMs, max_bytes: maxBytes, max_age_ms: maxAgeMs };
  return { name, offset, owner, ...bounds, ...shownPointer(pointer), principal };
}

function number(c: Command, name: string): number | undefined {
  return c[name] as number | undefined;
}

function moment(c: Command, name: string): Date | undefined {
  return c[name] ? new Date(c[name] as number) : undefined;
}

function position(at: object | undefined): Position {
  const { log_id = 0, session = 0, epoch = 0, next = 0 } = (at ?? {}) as { [name: string]: number };
  return { logId: log_id, session: session ? String(session) : "", epoch, next };
}

function shown({ logId, session, epoch, next }: Position) {
  return { log_id: logId, session: shownId(session), epoch, next };
}

/** The id of a session: a number where that is exact. */
function shownId(id: string | undefined): number | string {
  return Number.isSafeInteger(Number(id || 0)) ? Number(id || 0) : (id as string);
}

function described({ name, id, start, end, writerTerm, leader, openSessions, replicas, config, holds }: LogInfo) {
  return {
    name,
    id,
    start,
    end,
    writer_term: writerTerm,
    leader,
    sessions: openSessions,
    replicas: replicas.length,
    retention_ms: config.retentionMs ?? 0,
    retention_bytes: config.retentionBytes,
    fenced: config.fenced,
    revision: config.revision,
    rule: config.rule && shownRule(config.rule),
    holds: Object.fromEntries(holds.map((hold) => [hold.name, holding(hold)])),
  };
}

const clients = new Map<string, Client>();
const producers = new Map<string, Producer>();
const readers = new Map<string, Reader>();
const handled = new Map<string, Handled>();
const holds = new Map<string, KeptHold>(); // by log
const leases = new Map<string, WriterLease>(); // by log and name
const watches = new Map<string, { states: AsyncGenerator<WriterState>; seen: string[] }>(); // of writers, by log
const tokens = new Map<string, string>(); // that functions give, by client
let numbered = 0; // tokens with a number
const troubles = new Map<string, (StrandlineError | undefined)[]>(); // that clients have told of

/** What the handlers of a reader were called with. */
class Handled {
  offset = 0;
  end = 0;
  readonly failed: number[] = [];

  readonly progress = (offset: number, end: number) => Object.assign(this, { offset, end });
  readonly leaveOut = (offset: number) => void this.failed.push(offset);

  async reached(wanted: number) {
    for (let n = 0; n < 3000; n++) {
      const { offset, end } = this;
      if (offset >= wanted) return { offset, end };
      await sleep(10);
    }
    throw new Error(`no progress to ${wanted}, only to ${this.offset}`);
  }
}

function headers(c: { [name: string]: unknown }) {
  return Object.entries((c.headers ?? {}) as { [name: string]: unknown }).map(([key, value]) => ({
    key,
    value: Buffer.from(String(value)),
  }));
}

function check(given: unknown): Check | undefined {
  if (given === undefined) return undefined;
  const c = given as { since?: number; keys?: string[]; prefixes?: string[]; [name: string]: unknown };
  return { since: c.since, keys: c.keys, keyPrefixes: c.prefixes, headers: headers(c) };
}

function filter(c: Command, { leaveOut }: Handled): Filter | undefined {
  if (!["keys", "prefixes", "headers", "where"].some((name) => name in c)) return undefined;
  return {
    keys: c.keys as string[] | undefined,
    keyPrefixes: c.prefixes as string[] | undefined,
    headers: headers(c),
    where: c.where as string | undefined,
    onFailed: c.skip_failed ? leaveOut : undefined,
  };
}

function projection(c: Command): Projection | undefined {
  if (!["drop", "value_bytes", "json_fields"].some((name) => name in c)) return undefined;
  const drop = (c.drop ?? []) as string[];
  return {
    dropKey: drop.includes("key"),
    dropValue: drop.includes("value"),
    dropHeaders: drop.includes("headers"),
    valueBytes: number(c, "value_bytes"),
    jsonFields: c.json_fields as string[] | undefined,
  };
}

function holdOf(c: Command) {
  return {
    name: c.hold as string,
    offset: number(c, "offset") ?? 0,
    owner: (c.owner as string | undefined) ?? "",
    leaseMs: number(c, "lease_ms"),
    maxBytes: number(c, "max_bytes") ?? 0,
    maxAgeMs: number(c, "max_age_ms"),
    pointer: c.pointer_hex ? Buffer.from(c.pointer_hex as string, "hex") : Buffer.from((c.pointer as string) ?? ""),
  };
}

function placeOf(c: Command) {
  return c.from_start ? "start" : c.tail ? "end" : undefined;
}

/** The commands of a hold that is renewed, of which a log has one. */
async function keepHold(client: Client, c: Command, signal: AbortSignal | undefined) {
  if (c.do === "hold") holds.set(c.log, await client.hold(c.log, holdOf(c), { at: placeOf(c), signal }));
  const kept = holds.get(c.log) as KeptHold;
  if (c.do === "move-hold") {
    const { offset, pointer } = holdOf(c);
    await kept.move(offset, pointer, { signal });
  }
  if (c.do === "release-kept") await kept.release({ signal });
  if (c.do === "close-hold") kept.close();
  if (c.do === "await-hold") return { reason: (await kept.done)?.reason ?? "" };
  return { offset: kept.hold.offset };
}

function claimOf(c: Command) {
  const payload = Buffer.from((c.payload as string | undefined) ?? "");
  return { name: c.name as string, leaseMs: number(c, "lease_ms") as number, payload };
}

function shownWriter({ term, waiting, holder, since, leftMs }: WriterState) {
  const shown = { writer_term: term, waiting, holder: holder?.name ?? null };
  if (!holder) return shown;
  const { payload, leaseMs } = holder;
  return {
    ...shown,
    payload: payload.toString(),
    lease_ms: leaseMs,
    since_ms: since?.getTime(),
    left_ms: leftMs,
  };
}

/** The commands of writer leases that are renewed. */
async function keepLease(client: Client, c: Command, signal: AbortSignal | undefined) {
  const of = `${c.log} ${c.name}`;
  if (c.do === "elect") {
    const began = performance.now();
    const made = await client.leaseWriter(c.log, claimOf(c), { signal });
    leases.set(of, made);
    return { writer_term: made.term, end: made.endOffset, waited_ms: performance.now() - began };
  }
  const lease = leases.get(of) as WriterLease;
  if (c.do === "release-lease") await lease.release({ signal });
  if (c.do === "hand-over") await lease.handOver(c.to as string, { signal });
  if (c.do === "await-lease") return { reason: (await lease.done)?.reason ?? "" };
  return undefined;
}

/** Continues to watch the writer of a log until its state is as it is to be. */
async function watchWriter(admin: Admin, c: Command) {
  let watch = watches.get(c.log);
  if (!watch) {
    watch = { states: admin.watchWriter(c.log, { intervalMs: number(c, "interval_ms") }), seen: [] };
    watches.set(c.log, watch);
  }
  const { states, seen } = watch;
  if (c.do === "close-watch") {
    watches.delete(c.log);
    await states.return(undefined);
    return undefined;
  }
  for (;;) {
    const { done, value: state } = await states.next();
    if (done) throw new Error("the watch has ended");
    const now = `${state.term}:${state.holder?.name ?? "-"}`;
    if (seen.at(-1) !== now) seen.push(now);
    const held = c.until_held === undefined || c.until_held === (state.holder !== undefined);
    const waiting = c.until_waiting === undefined || c.until_waiting === state.waiting;
    if (state.term >= (number(c, "until_term") ?? 0) && held && waiting) return { ...shownWriter(state), seen };
  }
}

/** Waits until a client has told of trouble and of its end. */
async function awaitTrouble(heard: (StrandlineError | undefined)[]) {
  while (heard.length === 0 || heard.at(-1)) await sleep(5);
  return { reason: heard[0]?.reason, retryable: heard[0]?.retryable };
}

async function carryOut(c: Command, signal: AbortSignal | undefined): Promise<object | undefined> {
  if (c.do === "leaks") return leaks();
  if (c.do === "dial") {
    const tlsFiles = c.authority ? { ca: c.authority, cert: c.certificate, key: c.key } : undefined;
    const heard: (StrandlineError | undefined)[] = [];
    troubles.set(c.client, heard);
    const options: ClientOptions = {
      retryTimeMs: number(c, "retry_ms"),
      onTrouble: (_, error) => void heard.push(error),
    };
    if (c.environment) {
      clients.set(c.client, Client.fromEnvironment(options, c.environment));
      return undefined;
    }
    let token: string | (() => string) | undefined = c.token;
    if (c.token_function) {
      tokens.set(c.client, c.token_function);
      token = () => (tokens.get(c.client) ?? "").replace(/#$/, () => `${++numbered}`);
    }
    clients.set(c.client, new Client(c.addresses, { ...options, tlsFiles, token }));
    return undefined;
  }
  if (c.do === "show-token") return void tokens.set(c.client, c.token ?? "");
  if (c.do === "await-trouble") return awaitTrouble(troubles.get(c.client) ?? []);
  const client = clients.get(c.client) as Client;
  const producer = producers.get(c.producer) as Producer;
  const reader = readers.get(c.reader) as Reader;
  switch (c.do) {
    case "hang-up":
      return void client.close();
    case "producer": {
      const made = await client.producer(c.log, {
        maxInFlight: number(c, "in_flight"),
        maxInFlightBytes: number(c, "in_flight_bytes"),
        maxRequestBytes: number(c, "request_bytes"),
        bufferBytes: number(c, "buffer_bytes"),
        lingerMs: number(c, "linger_ms"),
        leaseMs: number(c, "lease_ms"),
        writerTerm: number(c, "writer_term"),
        session: !c.no_session,
        resume: c.resume && position(c.resume),
        endOnFailure: c.end_on_failure as boolean | undefined,
        recordTimeoutMs: number(c, "record_timeout_ms"),
        signal,
      });
      producers.set(c.producer, made);
      return shown(made.position);
    }
    case "append": {
      const begun = c.values.map((value) => {
        const bytes = Buffer.from(value);
        const appended = producer.append(bytes, { signal }).then(
          (offset) => ({ offset }),
          (error) => ({ error: failed(error) }),
        );
        if (c.overwrite) bytes.fill(0);
        return appended;
      });
      return { records: await Promise.all(begun) };
    }
    case "batch": {
      const key = c.key === undefined ? undefined : Buffer.from(c.key);
      const timestamp = moment(c, "record_time_ms");
      const timed = timestamp && { timestamp };
      const records = c.values.map((value) => ({ value: Buffer.from(value), key, headers: headers(c), ...timed }));
      const atomic = c.atomic === true;
      const options = { expectedEnd: number(c, "expected_end"), atomic, check: check(c.check), signal };
      return { offset: (await producer.appendBatch(records, options))[0] };
    }
    case "flush":
      return void (await producer.flush({ signal }));
    case "close":
      return void (await producer.close({ signal }));
    case "position":
      return shown(producer.position);
    case "reader": {
      const handles = new Handled();
      const near = c.near as string[] | undefined;
      handled.set(c.reader, handles);
      const made = client.read(c.log, {
        offset: number(c, "offset"),
        time: moment(c, "time_ms"),
        tail: c.tail === true,
        logId: number(c, "log_id"),
        follow: c.follow === true,
        maxRecords: number(c, "max_records"),
        maxBytes: number(c, "max_bytes"),
        untilOffset: number(c, "until_offset"),
        untilTime: moment(c, "until_time_ms"),
        anyReplica: c.any_replica === true,
        atLeast: number(c, "at_least"),
        maxStalenessMs: number(c, "max_staleness_ms"),
        preferFollower: c.prefer_follower === true,
        nearest: near && (near.length > 0 ? near : true),
        heartbeatMs: number(c, "heartbeat_ms"),
        filter: filter(c, handles),
        projection: projection(c),
        onProgress: handles.progress,
      });
      readers.set(c.reader, made);
      await made.open({ signal });
      return undefined;
    }
    case "read":
      return { ...(await read(reader, number(c, "count") ?? 0, signal)), failed: handled.get(c.reader)?.failed };
    case "await-progress":
      return handled.get(c.reader)?.reached(number(c, "offset") ?? 0);
    case "close-reader":
      return void reader.close();
    case "leave-loop": {
      for await (const { value } of client.read(c.log, { follow: c.follow === true })) {
        return { value: value?.toString() ?? null };
      }
      return undefined;
    }
    case "hold":
    case "move-hold":
    case "release-kept":
    case "close-hold":
    case "await-hold":
      return keepHold(client, c, signal);
    case "elect":
    case "release-lease":
    case "hand-over":
    case "await-lease":
      return keepLease(client, c, signal);
    case "watch-writer":
    case "close-watch":
      return watchWriter(client.admin, c);
    case "digest":
      return client.digest(c.log, { at: number(c, "until_offset"), known: c.known === true, signal });
    case "prove": {
      const trusted = { hash: c.hash as string, at: number(c, "until_offset") as number };
      const r = await client.prove(c.log, number(c, "offset") as number, trusted, { known: c.known === true, signal });
      const headers = r.headers.map((h) => `${h.key}=${h.value?.toString() ?? ""}`).join(",") || null;
      const [value, key] = [r.value?.toString() ?? null, r.key?.toString() ?? null];
      return { offset: r.offset, value, key, headers, time: r.timestamp.getTime() };
    }
    case "stats": {
      const s = producer.stats;
      return {
        in_flight_requests: s.inFlightRequests,
        in_flight_records: s.inFlightRecords,
        in_flight_bytes: s.inFlightBytes,
        buffered_bytes: s.bufferedBytes,
        requests: s.requests,
        records: s.records,
        bytes: s.bytes,
        failed: s.failed,
        resent: s.resent,
        streams: s.streams,
        request_records: s.requestRecords.quantile(1),
        request_bytes: s.requestBytes.quantile(1),
        latency_us: s.latencyMicros.quantile(1),
      };
    }
    case "end": {
      const asked = Array.from({ length: number(c, "callers") ?? 1 }, () => client.end(c.log, { signal }));
      return { end: Math.min(...(await Promise.all(asked))) };
    }
  }
  return administer(client.admin, c, signal);
}

async function read(reader: Reader, count: number, signal: AbortSignal | undefined) {
  const got: LogRecord[] = [];
  let ended = false;
  let then: object | undefined;
  while (got.length < count && !ended && !then) {
    try {
      const { done, value } = await reader.next({ signal });
      if (done) ended = true;
      else got.push(value);
    } catch (error) {
      if (got.length === 0) throw error;
      then = failed(error);
    }
  }
  return {
    ended,
    offsets: got.map((r) => r.offset),
    values: got.map((r) => r.value?.toString() ?? null),
    keys: got.map((r) => r.key?.toString() ?? null),
    headers: got.map((r) => r.headers.map((h) => `${h.key}=${h.value ?? ""}`).join(",") || null),
    next: reader.offset,
    end: reader.end,
    age_ms: reader.ageMs ?? null,
    times: got.map((r) => r.timestamp.getTime()),
    log_id: reader.logId,
    ...(then && { then }),
  };
}

/** A placement rule as commands and answers write it. */
interface ShownRule {
  spread?: string;
  voters_in?: string[];
  voters_not_in?: string[];
  leader_homes?: string[];
  read_replicas?: ReadReplicas[];
}

function rule(r: ShownRule): PlacementRule {
  return {
    spread: r.spread ?? "",
    votersIn: r.voters_in ?? [],
    votersNotIn: r.voters_not_in ?? [],
    leaderHomes: r.leader_homes ?? [],
    readReplicas: r.read_replicas ?? [],
  };
}

function shownRule(r: PlacementRule): ShownRule {
  const { spread = "", votersIn = [], votersNotIn = [], leaderHomes = [], readReplicas = [] } = r;
  return {
    spread,
    voters_in: votersIn,
    voters_not_in: votersNotIn,
    leader_homes: leaderHomes,
    read_replicas: readReplicas,
  };
}

async function administer(admin: Admin, c: Command, signal: AbortSignal | undefined): Promise<object | undefined> {
  const { log } = c;
  const at = position(c.at);
  const session = { id: at.session, logId: at.logId };
  const config: Partial<LogConfig> = {
    retentionMs: number(c, "retention_ms"),
    retentionBytes: number(c, "retention_bytes") ?? 0,
    replicas: number(c, "replicas") ?? 0,
    fenced: c.fenced === true,
    revision: number(c, "revision") ?? 0,
    rule: c.rule ? rule(c.rule as ShownRule) : undefined,
  };
  switch (c.do) {
    case "create":
      return described(await admin.createLog(log, config, { signal }));
    case "configure":
      return described(await admin.configureLog(log, config, { signal }));
    case "info":
      return described(await admin.info(log, { signal }));
    case "watch": {
      for await (const info of admin.watchInfo(log, { intervalMs: number(c, "interval_ms"), signal })) {
        if (info.end >= (number(c, "until_end") ?? 0)) return described(info);
      }
      return undefined;
    }
    case "list": {
      const all = await admin.listLogs({ signal });
      return { logs: Object.fromEntries(all.map((info) => [info.name, described(info)])) };
    }
    case "delete":
      return void (await admin.deleteLog(log, { signal }));
    case "trim":
      return admin.trim(log, number(c, "before") ?? 0, { fastForward: c.fast_forward === true, signal });
    case "set-hold":
      return admin.setHold(log, holdOf(c), { at: placeOf(c), signal });
    case "keep-hold":
      return void (await admin.keepHold(log, c.hold as string, { signal }));
    case "release-hold":
      return void (await admin.releaseHold(log, c.hold as string, { signal }));
    case "acquire-writer": {
      const { writerTerm, end } = await admin.acquireWriter(log, { signal });
      return { writer_term: writerTerm, end };
    }
    case "lease-writer": {
      const { term, end, state } = await admin.leaseWriter(log, claimOf(c), {
        waitMs: number(c, "wait_ms") ?? 0,
        signal,
      });
      return { ...shownWriter(state), writer_term: term, end };
    }
    case "keep-writer":
      return void (await admin.keepWriter(log, number(c, "writer_term") ?? 0, { signal }));
    case "release-writer":
      return void (await admin.releaseWriter(log, number(c, "writer_term") ?? 0, {
        to: (c.to as string) ?? "",
        signal,
      }));
    case "resolve":
    case "end-epoch": {
      const found =
        c.do === "resolve"
          ? await admin.resolve(log, at, { final: c.final === true, signal })
          : await admin.endEpoch(log, at, { signal });
      return { ...found, known: found.next !== undefined };
    }
    case "open-session": {
      const { id, epoch, logId, leaseMs } = await admin.openSession(log, { leaseMs: number(c, "lease_ms"), signal });
      return { session: shownId(id), epoch, log_id: logId, lease_ms: leaseMs };
    }
    case "keep-session":
      return void (await admin.keepSession(log, session, { signal }));
    case "close-session":
      return void (await admin.closeSession(log, session, { signal }));
  }
  throw new Error(`unknown command ${c.do}`);
}

/** What keeps the program alive once all is closed, beside its standard input; it may take a moment to end. */
async function leaks() {
  let where: string[] = [];
  for (const until = Date.now() + 30_000; Date.now() < until; ) {
    where = process.getActiveResourcesInfo().filter((name) => !/^(Pipe|File|TTY|FSReq)/.test(name));
    if (where.length === 0) break;
    await sleep(20, undefined, { ref: false });
  }
  return { leaks: where.length, where };
}

for await (const line of createInterface({ input: process.stdin })) {
  const c = JSON.parse(line) as Command;
  const signal = c.timeout_ms ? AbortSignal.timeout(c.timeout_ms as number) : undefined;
  carryOut(c, signal).then(
    (value) => process.stdout.write(`${JSON.stringify({ id: c.id, value })}\n`),
    (error) => process.stdout.write(`${JSON.stringify({ id: c.id, error: failed(error) })}\n`),
  );
}
