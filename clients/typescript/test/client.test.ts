// What needs no server. Everything else is in the scenarios, which the runner beside this plays.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import {
  InterceptingCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { Backlog, complete } from "../src/backlog.js";
import { methods } from "../src/calls.js";
import { check, recordOf } from "../src/digests.js";
import { fromRefusal, fromRpc } from "../src/errors.js";
import { ErrorInfo, Status } from "../src/generated/status.js";
import { CreateLogResponse, ListLogsResponse } from "../src/generated/strandline/v1/catalog.js";
import {
  AcquireWriterResponse,
  AppendRequest,
  AppendResponse,
  GetInfoResponse,
  KeepHoldResponse,
  KeepWriterResponse,
  LeaseWriterResponse,
  LogInfo,
  ReadResponse,
  SetHoldResponse,
  TrimResponse,
  WatchInfoResponse,
  WatchWriterResponse,
} from "../src/generated/strandline/v1/log.js";
import {
  KeepSessionResponse,
  OpenSessionResponse,
  ResolveResponse,
  ResolveState,
} from "../src/generated/strandline/v1/session.js";
import { Client, Histogram, StrandlineError, tokenFile } from "../src/index.js";
import { Pauses } from "../src/peers.js";
import { Queue } from "../src/queue.js";
import { toWire } from "../src/records.js";
import { Shown, Token } from "../src/token.js";
import { sleep, within } from "../src/wait.js";
import { Request, Window } from "../src/window.js";

function reason(expected: string) {
  return (error: unknown) => error instanceof StrandlineError && error.reason === expected;
}

/** A server that takes connections and says nothing; with listening false, an address where nobody is. */
async function silent(listening = true) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket.on("error", () => {})));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  if (!listening) await new Promise((resolve) => server.close(resolve));
  const end = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { address: `127.0.0.1:${port}`, [Symbol.dispose]: end };
}

type Unary = (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) => void;
type Stream = (call: ServerDuplexStream<Buffer, Buffer>) => void;

/** A server with these methods, which take and give bytes. */
async function serving(
  unary: { [method: string]: Unary },
  streams: { [method: string]: Stream } = {},
  shown = ServerCredentials.createInsecure(),
) {
  const server = new Server();
  const same = (bytes: Buffer) => bytes;
  for (const [name, does] of Object.entries(unary)) {
    server.register(`/strandline.v1.${name}`, does, same, same, "unary");
  }
  for (const [name, does] of Object.entries(streams)) {
    server.register(`/strandline.v1.${name}`, does, same, same, "bidi");
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", shown, (error, port) => (error ? reject(error) : resolve(port)));
  });
  return { address: `127.0.0.1:${port}`, [Symbol.dispose]: () => server.forceShutdown() };
}

function bytes<M>(codec: { encode(message: M): { finish(): Uint8Array } }, message: M): Buffer {
  return Buffer.from(codec.encode(message).finish());
}

const known: Unary = (_, answer) =>
  answer(null, bytes(GetInfoResponse, GetInfoResponse.fromPartial({ info: { id: 1 } })));

test("a function gives the token of each call, and a file of it is read again", async () => {
  const seen: unknown[] = [];
  using server = await serving({
    "LogService/GetInfo": (call, answer) => {
      seen.push(call.metadata.get("authorization")[0]);
      known(call, answer);
    },
  });
  let count = 0;
  const token = () => (++count < 3 ? `token-${count}` : "line\nbreak");
  const client = new Client(server.address, { token, retryTimeMs: 0 });
  await client.admin.info("orders");
  await client.admin.info("orders");
  await assert.rejects(client.admin.info("orders"), (error: StrandlineError) => {
    return error.reason === "INVALID" && !error.message.includes("line\n");
  });
  assert.deepEqual(seen, ["Bearer token-1", "Bearer token-2"]);
  client.close();

  const path = join(mkdtempSync(join(tmpdir(), "token-")), "token");
  assert.throws(tokenFile(path), reason("INVALID"));
  writeFileSync(path, "one\n");
  assert.equal(tokenFile(path)(), "one");
});

test("a call whose token is refused is made once more with another one, which may be in a file", async () => {
  const seen: unknown[] = [];
  const info = ErrorInfo.fromPartial({
    reason: "UNAUTHENTICATED",
    domain: "strandline.dev",
    metadata: { outcome: "not_done", retryable: "false" },
  });
  const details = [{ typeUrl: "type/google.rpc.ErrorInfo", value: Buffer.from(ErrorInfo.encode(info).finish()) }];
  const refusal = Buffer.from(Status.encode(Status.fromPartial({ details })).finish());
  using server = await serving({
    "LogService/GetInfo": (call, answer) => {
      const token = call.metadata.get("authorization")[0];
      seen.push(token);
      if (token === "Bearer good") return known(call, answer);
      const metadata = new Metadata();
      metadata.set("grpc-status-details-bin", refusal);
      answer({ code: 16, details: "no", metadata } as never);
    },
  });
  const path = join(mkdtempSync(join(tmpdir(), "token-")), "token");
  writeFileSync(path, "good");
  const client = new Client(server.address, { token: tokenFile(path), retryTimeMs: 0 });
  await client.admin.info("orders");
  writeFileSync(path, "bad");
  await client.admin.info("orders"); // the file is not read yet
  assert.deepEqual(seen.splice(0), ["Bearer good", "Bearer good"]);
  client.close();

  const given = ["bad", "good", "bad", "bad", "bad", "worse", "good"];
  const other = new Client(server.address, { token: () => given.shift() as string, retryTimeMs: 0 });
  await other.admin.info("orders");
  for (let i = 0; i < 2; i++) await assert.rejects(other.admin.info("orders"), reason("UNAUTHENTICATED"));
  assert.deepEqual(seen, ["Bearer bad", "Bearer good", "Bearer bad", "Bearer bad", "Bearer worse"]);
  other.close();
});

test("the environment says how to connect", () => {
  const of = (environ: { [name: string]: string }) => Client.fromEnvironment({}, environ).close();
  of({});
  of({ STRANDLINE_SERVER: "192.0.2.1:1, 192.0.2.2:2", STRANDLINE_INSECURE: "true", STRANDLINE_TOKEN: "secret" });
  for (const [name, value] of [
    ["SERVER", "192.0.2.1:1"],
    ["INSECURE", "perhaps"],
    ["TLS_CERT", "nowhere.pem"],
    ["TOKEN", "line\nbreak"],
  ]) {
    assert.throws(() => of({ [`STRANDLINE_${name}`]: value as string }), reason("INVALID"), name);
  }
});

test("a reader that is not read from holds little", async () => {
  const value = Buffer.alloc(1 << 20);
  using server = await serving(
    { "LogService/GetInfo": known },
    {
      "LogService/Read": (call) => {
        for (let offset = 0; offset < 64; offset++) {
          const frame = { logId: 1, firstOffset: offset, recordCount: 1, endOffset: 64, records: [{ offset, value }] };
          call.write(bytes(ReadResponse, ReadResponse.fromPartial(frame)));
        }
        call.end();
      },
    },
  );
  const { read } = methods.read;
  const { startRead } = InterceptingCall.prototype;
  let [asked, decoded] = [0, 0];
  InterceptingCall.prototype.startRead = function () {
    asked++;
    startRead.call(this);
  };
  methods.read.read = (frame) => {
    decoded++;
    return read(frame);
  };
  const client = new Client(server.address);
  try {
    const reader = client.read("orders");
    for (let taken = 1; taken <= 64; taken++) {
      const { value: record } = await reader.next();
      assert.equal(record?.offset, taken - 1);
      // What is on its way comes: the server has sent everything.
      if (taken % 16 === 0) await delay(50);
      assert.ok(asked <= taken + 2, `${asked} frames may be here, of which ${taken} were taken`);
      assert.equal(decoded, taken);
    }
    assert.deepEqual(await reader.next(), { done: true, value: undefined });
  } finally {
    methods.read.read = read;
    InterceptingCall.prototype.startRead = startRead;
    client.close();
  }
});

test("addresses other than loopback need to be allowed", () => {
  for (const address of ["192.0.2.1:7171", "example.org:7171", "no address", "127.0.0.1", "127.0.0.1:x"]) {
    assert.throws(() => new Client(address), reason("INVALID"));
  }
  new Client("192.0.2.1:7171", { insecure: true }).close();
  new Client(["[::1]:7171", "localhost:1", "127.9.9.9:1"]).close();
});

test("a client that finds nobody says so in time", async () => {
  const { address } = await silent(false);
  const client = new Client([address, address], { retryTimeMs: 200 });
  await assert.rejects(client.producer("orders"), (error: StrandlineError) => {
    return error.reason === "UNREACHABLE" && error.outcome === "not_done" && error.retryable;
  });
  await assert.rejects(client.read("orders").next(), reason("UNREACHABLE"));
  client.close();
});

test("a closed client says so", async () => {
  const { address } = await silent(false);
  const client = new Client(address);
  client.close();
  await assert.rejects(client.admin.info("orders"), reason("CLOSED"));
});

test("a client that is closed ends what is under way", async () => {
  const reached = new Map<string, () => void>();
  const arrival = (method: string) => new Promise<void>((resolve) => reached.set(method, resolve));
  const hold = (method: string) => (call: { on(event: "data", does: () => void): unknown }) => {
    call.on("data", () => reached.get(method)?.());
  };
  const streams = {
    "LogService/Read": hold("read"),
    "LogService/Append": hold("append"),
    "LogService/WatchInfo": hold("watch"),
  };
  using server = await serving(
    { "LogService/GetInfo": known, "LogService/Trim": () => reached.get("trim")?.() },
    streams,
  );
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  const client = new Client(server.address);
  const idle = await client.producer("orders", { session: false });
  const producer = await client.producer("orders", { session: false });
  const all = Promise.all(["read", "append", "watch", "trim"].map(arrival));
  const doing = [
    client.read("orders", { follow: true }).next(),
    producer.append("a"),
    client.admin.watchInfo("orders").next(),
    client.admin.trim("orders", 1),
  ];
  const failed = doing.map((one) => assert.rejects(one, reason("CLOSED")));
  await all;
  client.close();
  await Promise.all(failed);
  await assert.rejects(idle.append("b"), reason("CLOSED"));
  while (timers() > before) await sleep(20);
});

test("what fails after a wait was aborted ends no process", async () => {
  await within(Promise.reject(new Error("lost")), 60_000, AbortSignal.abort());
  await sleep(1);
});

test("a signal bounds a call", async () => {
  using server = await silent();
  const client = new Client(server.address);
  await assert.rejects(client.admin.info("orders", { signal: AbortSignal.timeout(100) }), reason("CANCELLED"));
  client.close();
});

test("options that make no sense are refused", async () => {
  const client = new Client("127.0.0.1:1");
  const both = { preferFollower: true, nearest: "dc=syd" };
  for (const wrong of [{ offset: -1 }, { offset: 1, tail: true }, { maxStalenessMs: 0 }, both]) {
    assert.throws(() => client.read("orders", wrong), reason("INVALID"));
  }
  const resume = { logId: 1, session: "1", epoch: 0, next: 0 };
  for (const wrong of [{ bufferBytes: 0 }, { lingerMs: -1 }, { maxInFlight: Number.NaN }, { session: false, resume }]) {
    assert.throws(() => client.producer("orders", wrong), reason("INVALID"));
  }
  client.close();
});

function rpcStatus(reason: string, domain = "strandline.dev") {
  const metadata = new Metadata();
  const info = { reason, domain, metadata: { outcome: "not_done", writer_term: "4" } };
  const details = [{ typeUrl: "type/google.rpc.ErrorInfo", value: Buffer.from(ErrorInfo.encode(info).finish()) }];
  metadata.set("grpc-status-details-bin", Buffer.from(Status.encode({ details }).finish()));
  return { code: status.UNAVAILABLE, details: "words", metadata };
}

/**
 * A server that loses the first request of a producer and refuses the second, as the session has ended. It says
 * that the record is in the log at offset 7, once it may. What comes later is appended at 8.
 */
function losing(may: Promise<unknown>, others: { [method: string]: Unary } = {}) {
  const opened = bytes(OpenSessionResponse, OpenSessionResponse.fromPartial({ sessionId: "1", logId: 1 }));
  const state = ResolveState.RESOLVE_STATE_COMMITTED;
  const resolved = bytes(ResolveResponse, ResolveResponse.fromPartial({ state, offset: 7 }));
  const refusal = { reason: "SESSION_EXPIRED", metadata: { outcome: "not_done" } };
  const refused = bytes(AppendResponse, AppendResponse.fromPartial({ refused: refusal }));
  const appended = { firstOffset: 8, endOffset: 9, ranges: [] };
  let count = 0;
  const append: Stream = (call) => {
    const stream = count++;
    call.on("data", () => {
      if (stream === 0) call.emit("error", { code: status.UNAVAILABLE });
      else if (stream === 1) call.write(refused);
      else call.write(bytes(AppendResponse, AppendResponse.fromPartial({ appended })));
    });
  };
  const unary: { [method: string]: Unary } = {
    "SessionService/OpenSession": (_, answer) => answer(null, opened),
    "SessionService/CloseSession": (_, answer) => answer(null, Buffer.alloc(0)),
    "SessionService/Resolve": (_, answer) => void may.then(() => answer(null, resolved)),
    ...others,
  };
  return serving(unary, { "LogService/Append": append });
}

test("a time that no timer knows is a long one", async () => {
  const warnings: Error[] = [];
  const warned = (warning: Error) => warnings.push(warning);
  process.on("warning", warned);
  for (const recordTimeoutMs of [2 ** 31, Number.POSITIVE_INFINITY]) {
    using server = await losing(sleep(50));
    using client = new Client(server.address);
    await using producer = await client.producer("orders", { recordTimeoutMs });
    assert.equal(await producer.append("a"), 7);
  }
  let streams = (_: unknown) => {};
  const hold = (call: unknown) => streams(call);
  using server = await serving({ "LogService/GetInfo": known }, { "LogService/Read": hold, "LogService/Append": hold });
  using client = new Client(server.address);
  const producer = await client.producer("orders", { session: false, lingerMs: Number.POSITIVE_INFINITY });
  const doing = [
    () => client.read("orders", { follow: true, heartbeatMs: 2 ** 31 }).next(),
    () => producer.append("a"),
  ];
  for (const one of doing) {
    const reached = new Promise((resolve) => {
      streams = resolve;
    });
    one().catch(() => {});
    await reached;
  }
  process.off("warning", warned);
  assert.deepEqual(warnings, []);
});

test("what is in doubt is asked for although the round is interrupted meanwhile", async () => {
  let keep = () => {};
  const kept = new Promise<void>((resolve) => {
    keep = resolve;
  });
  const expired: Unary = (_, answer) => {
    answer(rpcStatus("SESSION_EXPIRED"));
    keep();
  };
  using server = await losing(
    kept.then(() => sleep(100)), // by then the client knows
    { "SessionService/KeepSession": expired },
  );
  using client = new Client(server.address);
  const producer = await client.producer("orders", { leaseMs: 1200 });
  assert.equal(await producer.append("a"), 7);
});

test("times are sent as servers take them", async () => {
  assert.deepEqual(toWire({ timestamp: new Date(-1500) }).timestamp, { seconds: -2, nanos: 500_000_000 });
  assert.deepEqual(toWire({ timestamp: new Date(1001) }).timestamp, { seconds: 1, nanos: 1_000_000 });
  for (const timestamp of [new Date("garbage"), new Date("+010000-01-01"), new Date("0000-12-31")]) {
    assert.throws(() => toWire({ timestamp }), reason("INVALID"));
  }
  using server = await serving({ "LogService/GetInfo": known });
  using client = new Client(server.address);
  await using producer = await client.producer("orders", { session: false });
  await assert.rejects(producer.append({ timestamp: new Date("garbage") }), reason("INVALID"));
});

test("the facts of a status are read", () => {
  const { reason, writerTerm, outcome, retryable } = fromRpc(rpcStatus("FENCED"));
  assert.deepEqual([reason, writerTerm, outcome, retryable], ["FENCED", 4, "not_done", false]);
});

test("what is not from a log may be done", () => {
  const { reason, outcome, retryable } = fromRpc(rpcStatus("FENCED", "example.org"));
  assert.deepEqual([reason, outcome, retryable], ["UNREACHABLE", "maybe_done", true]);
});

test("what a refusal leaves out is assumed to be bad", () => {
  const error = fromRefusal({ code: 0, reason: "INVALID", message: "", metadata: { end_offset: "no number" } });
  assert.deepEqual([error.retryable, error.outcome, error.endOffset], [false, "maybe_done", 0]);
});

test("the window has room for few small requests and for many large ones", () => {
  const window = new Window();
  const request = (size: number) => Object.assign(new Request(), { size, state: "in flight" });
  for (let n = 0; n < 4; n++) {
    assert.ok(window.admits(100));
    window.push(request(100));
  }
  assert.ok(!window.admits(100));
  assert.ok(window.admits(64 << 10));
  assert.ok(!window.admits(16 << 20));
});

test("what has failed is not sent again, and its answers are waited for", () => {
  const window = new Window(3);
  for (let first = 0; first < 3; first++) window.push(Object.assign(new Request(), { first, size: 1 }));
  window.sent = 2;
  assert.equal(window.fail().length, 3);
  assert.deepEqual(
    window.flight.map((r) => r.state),
    ["failed", "failed"],
  );
  window.push(Object.assign(new Request(), { first: 7, size: 1 }));
  assert.equal(window.lowWater(), 7);
  window.reset();
  assert.equal(window.flight.length, 1);
});

test("a flush does not wait for the answers of what has failed", async () => {
  const backlog = new Backlog(complete({ maxRequestBytes: 1 }));
  const appended = Array.from({ length: 3 }, () => {
    return new Promise<number>((resolve, reject) => backlog.add(toWire("a"), { resolve, reject }));
  });
  for (const _ of appended) backlog.closeBatch();
  backlog.window.sent = 3;
  backlog.fail({ error: new StrandlineError("SEALED", "no more"), refused: backlog.window.oldest() as Request });
  backlog.leave();
  const outcomes = await Promise.allSettled(appended);
  assert.ok(outcomes.every(({ status }) => status === "rejected"));
  assert.equal(backlog.window.sent, 2);
  assert.equal(backlog.newest(), undefined);
});

test("pauses grow with the time waited, to a bound", () => {
  // The queries of a thousand clients that all wait would otherwise take the processors that nodes need to
  // find each other.
  const pauses = new Pauses();
  let [asked, waited] = [0, 0];
  while (waited < 60_000) {
    const pause = pauses.draw(5000 + waited);
    assert.ok(pause > 0 && pause <= Math.min(Math.max(100, waited / 10), 1000));
    waited += pause;
    if (++asked === 12) assert.ok(waited < 1200, "at first it asks often");
  }
  assert.ok(asked < 150);
});

test("the sizes of a queue stay right however it is used", () => {
  const queue = new Queue<number>();
  const plain: number[] = [];
  for (let n = 0; n < 5000; n++) {
    queue.push(n);
    plain.push(n);
    if (n % 3 === 0) continue;
    assert.equal(queue.shift(), plain.shift());
    assert.deepEqual([queue.length, queue.first, queue.last], [plain.length, plain[0], plain.at(-1)]);
  }
  assert.deepEqual([...queue], plain);
  for (let n = 0; n < 5000; n++) assert.equal(queue.shift(), plain.shift());
  assert.deepEqual([queue.length, queue.first, queue.last], [0, undefined, undefined]);
});

const badNumbers: unknown[] = [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, "1", null];
const badTimes: unknown[] = [0, -1, Number.NaN, Number.POSITIVE_INFINITY, "1", 1e13];

test("values that cannot be right reach no node", async () => {
  const reached: string[] = [];
  const note = (name: string) => (_: unknown, answer: sendUnaryData<Buffer>) => {
    reached.push(name);
    answer(rpcStatus("FENCED"));
  };
  const unary = ["GetInfo", "Trim", "SetHold"].map((name) => [`LogService/${name}`, note(name)]);
  using server = await serving(Object.fromEntries(unary));
  using client = new Client(server.address);
  const { admin } = client;
  const position = { logId: 1, session: "1", epoch: 0, next: 0 };
  const calls: [(bad: never) => unknown, unknown[]][] = [
    [(writerTerm) => client.producer("orders", { writerTerm }), badNumbers.slice(0, -1)],
    [(leaseMs) => client.producer("orders", { leaseMs }), badTimes],
    [(logId) => client.producer("orders", { resume: { ...position, logId } }), badNumbers],
    [(epoch) => client.producer("orders", { resume: { ...position, epoch } }), [...badNumbers, 2 ** 32]],
    [(next) => client.producer("orders", { resume: { ...position, next } }), badNumbers],
    [(session) => client.producer("orders", { resume: { ...position, session } }), ["-1", "x", 1, "9".repeat(20)]],
    [(offset) => client.read("orders", { offset }), badNumbers],
    [(maxRecords) => client.read("orders", { maxRecords }), badNumbers],
    [(heartbeatMs) => client.read("orders", { heartbeatMs }), badTimes],
    [(maxStalenessMs) => client.read("orders", { maxStalenessMs }), [99, ...badTimes]],
    [(time) => client.read("orders", { time }), [new Date("garbage"), 5]],
    [(logId) => admin.info("orders", { logId }), badNumbers],
    [(before) => admin.trim("orders", before), badNumbers],
    [(offset) => admin.setHold("orders", { name: "backup", offset }), badNumbers],
    [(maxBytes) => admin.setHold("orders", { name: "backup", maxBytes }), badNumbers],
    [(leaseMs) => admin.setHold("orders", { name: "backup", leaseMs }), badTimes],
    [(leaseMs) => admin.openSession("orders", { leaseMs }), badTimes],
    [(next) => admin.resolve("orders", { ...position, next }), badNumbers],
    [(replicas) => admin.createLog("orders", { replicas }), badNumbers],
  ];
  for (const [call, values] of calls) {
    for (const bad of values) {
      await assert.rejects(async () => call(bad as never), reason("INVALID"), `${call} with ${String(bad)}`);
    }
  }
  assert.deepEqual(reached, []);
});

/** A server of one log that appends, and what it was given. */
async function appending() {
  const values: string[] = [];
  let held: (() => void)[] | undefined;
  const append: Stream = (call) => {
    call.on("data", (request: Buffer) => {
      const { records } = AppendRequest.decode(request);
      const firstOffset = values.length;
      for (const { value } of records) values.push(String(value));
      const appended = { firstOffset, endOffset: values.length, ranges: [] };
      const answer = () => call.write(bytes(AppendResponse, AppendResponse.fromPartial({ appended })));
      if (held) held.push(answer);
      else answer();
    });
  };
  const opened = bytes(OpenSessionResponse, OpenSessionResponse.fromPartial({ sessionId: "1", logId: 1 }));
  const server = await serving(
    {
      "LogService/GetInfo": known,
      "SessionService/OpenSession": (_, answer) => answer(null, opened),
      "SessionService/CloseSession": (_, answer) => answer(null, Buffer.alloc(0)),
    },
    { "LogService/Append": append },
  );
  const hold = () => {
    held = [];
  };
  const release = () => {
    for (const answer of held ?? []) answer();
    held = undefined;
  };
  return Object.assign(server, { values, hold, release });
}

test("a record that cannot be right fails alone", async () => {
  using server = await appending();
  using client = new Client(server.address);
  await using producer = await client.producer("orders");
  const before = producer.append("before");
  const bad = [5, null, undefined, true, ["a"], { value: 5 }, { key: "text" }, { value: "a", headers: [{ key: 5 }] }];
  for (const record of bad as never[]) {
    await assert.rejects(producer.append(record), reason("INVALID"), JSON.stringify(record));
    await assert.rejects(producer.appendBatch(["a", record]), reason("INVALID"), JSON.stringify(record));
  }
  for (const expectedEnd of badNumbers.slice(0, -1) as number[]) {
    await assert.rejects(producer.appendBatch(["a"], { expectedEnd }), reason("INVALID"), String(expectedEnd));
  }
  assert.deepEqual([await before, await producer.append("after")], [0, 1]);
  assert.deepEqual(server.values, ["before", "after"]);
});

test("bytes that the caller changes afterwards are appended as they were", async () => {
  using server = await appending();
  using client = new Client(server.address);
  await using producer = await client.producer("orders");
  const value = Buffer.from("before");
  const appended = producer.append(value);
  const batch = producer.appendBatch([{ value }]);
  value.write("after!");
  await Promise.all([appended, batch]);
  assert.deepEqual(server.values, ["before", "before"]);
});

for (const end of ["flush", "close"] as const) {
  test(`a ${end} waits for appends that wait for room`, async () => {
    using server = await appending();
    using client = new Client(server.address);
    const producer = await client.producer("orders", { bufferBytes: 100, maxRequestBytes: 50 });
    server.hold();
    const appends = Array.from({ length: 10 }, (_, n) => producer.append(`${n}`));
    const ended = producer[end]();
    if (end === "close") await assert.rejects(producer.append("late"), reason("CLOSED"));
    server.release();
    await ended;
    assert.equal(server.values.length, 10);
    assert.deepEqual(await Promise.all(appends), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    if (end === "flush") await producer.close();
  });
}

test("as many appends as may wait for room, and no more", async () => {
  using server = await appending();
  using client = new Client(server.address);
  const producer = await client.producer("orders", { bufferBytes: 1000 });
  server.hold();
  const appends = Array.from({ length: 300 }, () => producer.append("x").catch((error: StrandlineError) => error));
  server.release();
  const answers = await Promise.all(appends);
  const refused = answers.filter((answer) => answer instanceof StrandlineError);
  assert.equal(refused.length, 300 - 1000 / 25 - 4 * (1000 / 25));
  assert.ok(
    refused.every(({ reason, retryable, outcome }) => reason === "BUSY" && retryable && outcome === "not_done"),
  );
  assert.equal(server.values.length, 200);
  await producer.close();
});

test("small appends that wait count with the memory that they take", async () => {
  using server = await appending();
  using client = new Client(server.address);
  const producer = await client.producer("orders", { bufferBytes: 1 << 20 });
  server.hold();
  const appends = [producer.append(Buffer.alloc((1 << 20) - 24))]; // there is no room for more
  for (let n = 0; n < 10_000; n++) appends.push(producer.append("x"));
  server.release();
  const ended = await Promise.allSettled(appends);
  const refused = ended.filter((end) => end.status === "rejected");
  const waited = ended.length - 1 - refused.length;
  assert.ok(waited > 1000 && waited * 500 < 4 << 20, `${waited} appends waited`);
  assert.ok(refused.every(({ reason: error }) => error.reason === "BUSY" && error.outcome === "not_done"));
  await producer.close();
});

test("a token that no header can carry is refused and not shown", () => {
  for (const token of ["secret\n", "secret\r\n", " secret", "sec ret", "secr\u00e9t", ""]) {
    assert.throws(
      () => new Client("127.0.0.1:1", { token }),
      (error: StrandlineError) => error.reason === "INVALID" && !error.message.includes("secr"),
    );
  }
});

test("numbers that are larger than a number holds exactly keep nobody from the rest", async () => {
  // By hand, as an encoder refuses what is not exact: bytesUsed of 2^63 - 1, and an end offset of 2^53 + 1.
  const large = (tag: number, value: bigint) => {
    const out = [tag];
    for (let left = value; ; left >>= 7n) {
      if (left < 128n) return Buffer.from([...out, Number(left)]);
      out.push(Number(left & 127n) | 128);
    }
  };
  const info = Buffer.concat([large(7 << 3, 2n ** 63n - 1n), large(6 << 3, 2n ** 53n + 1n)]);
  const answer = Buffer.concat([Buffer.from([10, info.length]), info]);
  const appended = Buffer.concat([large(8, 2n ** 53n + 1n), large(16, 2n ** 53n + 2n)]);
  const append: Stream = (call) => {
    call.on("data", () => call.write(Buffer.concat([Buffer.from([10, appended.length]), appended])));
  };
  using server = await serving(
    { "LogService/GetInfo": (_, give) => give(null, answer) },
    { "LogService/Append": append },
  );
  using client = new Client(server.address);
  const { end, bytesUsed } = await client.admin.info("orders");
  assert.deepEqual([end, bytesUsed], [2 ** 53, 2 ** 63]);
  await using producer = await client.producer("orders", { session: false });
  await assert.rejects(producer.append("a"), (error: StrandlineError) => {
    return error.reason === "OUTCOME_FORGOTTEN" && error.outcome === "done";
  });
});

test("without a session each request has its own answer when a token is refused", async () => {
  let token = "a";
  const why = { reason: "UNAUTHENTICATED", metadata: { outcome: "not_done" } };
  const refused = bytes(AppendResponse, AppendResponse.fromPartial({ refused: why }));
  const appended = { firstOffset: 0, endOffset: 1, ranges: [] };
  let count = 0;
  const append: Stream = (call) => {
    call.on("data", () => {
      if (call.metadata.get("authorization")[0] === "Bearer b") {
        call.write(bytes(AppendResponse, AppendResponse.fromPartial({ appended })));
      } else if (++count === 2) {
        token = "b";
        for (const answer of [refused, refused]) call.write(answer);
      }
    });
  };
  using server = await serving({ "LogService/GetInfo": known }, { "LogService/Append": append });
  using client = new Client(server.address, { token: () => token });
  await using producer = await client.producer("orders", { session: false, maxRequestBytes: 1, maxInFlight: 2 });
  const made = ["a", "b", "c"].map((value) => producer.append(value));
  const results = await Promise.allSettled(made);
  for (const result of results.slice(0, 2)) {
    const error = (result as PromiseRejectedResult).reason as StrandlineError;
    assert.deepEqual([error.reason, error.outcome, error.retryable], ["UNAUTHENTICATED", "not_done", true]);
  }
  assert.deepEqual(results[2], { status: "fulfilled", value: 0 });
});

test("a refusal that is final lets a token be replaced again", () => {
  let count = 0;
  const shown = new Shown(new Token(() => `token-${count++}`));
  const refused = new StrandlineError("UNAUTHENTICATED", "");
  const again = (error = refused) => shown.failure(error).again;
  void shown.metadata;
  assert.deepEqual([again(), again(), again()], [true, false, true]);
  assert.equal(again(new StrandlineError("UNREACHABLE", "")), false);
  assert.equal(again(), false, "no node has said that it knows the token");
  assert.equal(again(), true);
  assert.equal(again(new StrandlineError("FULL", "")), false);
  assert.equal(again(), true);
});

test("a list in parts advances and names each log once", async () => {
  const part = (next: string, ...names: string[]) => {
    const logs = names.map((name) => LogInfo.fromPartial({ name }));
    return bytes(ListLogsResponse, ListLogsResponse.fromPartial({ logs, next }));
  };
  const parts = [part("a", "a"), part("", "a", "b"), part("a"), part("a")]; // the second node does not divide it
  using server = await serving({ "CatalogService/ListLogs": (_, answer) => answer(null, parts.shift()) });
  using client = new Client(server.address);
  assert.deepEqual(
    (await client.admin.listLogs()).map(({ name }) => name),
    ["a", "b"],
  );
  await assert.rejects(client.admin.listLogs(), reason("CORRUPT"));
});

test("a record that times out while the log is asked for it fails no other", async () => {
  using server = await losing(sleep(800));
  using client = new Client(server.address);
  await using producer = await client.producer("orders", { recordTimeoutMs: 500 });
  assert.equal(await producer.append("a"), 7);
  assert.equal(await producer.append("b"), 8);
});

/** Certificates of servers, with their keys, made for an address or a name. */
function certificate(of: string) {
  const directory = mkdtempSync(join(tmpdir(), "strandline-"));
  const [key, cert] = ["key", "cert"].map((name) => join(directory, name)) as [string, string];
  const make = "req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=x -addext";
  execFileSync("openssl", [...make.split(" "), `subjectAltName=${of}`, "-keyout", key, "-out", cert], {
    stdio: "ignore",
  });
  return { key: readFileSync(key), cert: readFileSync(cert) };
}

test("why there is no connection is said, and what will not change is not tried again", async () => {
  const [right, other, elsewhere] = ["IP:127.0.0.1", "IP:127.0.0.1", "DNS:elsewhere"].map(certificate);
  assert.ok(right && other && elsewhere);
  for (const wrong of [
    { cert: right.cert },
    { key: right.key },
    { cert: right.cert, key: other.key },
    { ca: Buffer.from("garbage") },
    { cert: Buffer.from("garbage"), key: right.key },
  ]) {
    assert.throws(() => new Client("127.0.0.1:1", { tls: wrong }), reason("INVALID"));
  }
  const shows = ({ key, cert }: { key: Buffer; cert: Buffer }) =>
    serving(
      { "LogService/GetInfo": known },
      {},
      ServerCredentials.createSsl(null, [{ private_key: key, cert_chain: cert }]),
    );
  using good = await shows(right);
  using wrong = await shows(other);
  using named = await shows(elsewhere);
  using plain = await serving({ "LogService/GetInfo": known });
  using nobody = await silent(false);
  const causes: [string, { ca: Buffer } | undefined, RegExp, boolean][] = [
    [nobody.address, undefined, /ECONNREFUSED/, true],
    ["no-such-host.invalid:7171", undefined, /: .*no-such-host.invalid/, true],
    [wrong.address, { ca: right.cert }, /self-signed certificate/, false],
    [named.address, { ca: elsewhere.cert }, /altnames/, false],
    [plain.address, { ca: right.cert }, /wrong version/, false],
  ];
  for (const [address, tls, message, retryable] of causes) {
    // What will not change would be tried for as long as that, otherwise.
    using client = new Client(address, { tls, insecure: !tls, retryTimeMs: retryable ? 0 : 1e9 });
    await assert.rejects(client.admin.info("orders"), (error: StrandlineError) => {
      assert.match(error.message, message);
      assert.deepEqual([error.reason, error.outcome, error.retryable], ["UNREACHABLE", "not_done", retryable]);
      return true;
    });
  }
  using client = new Client([wrong.address, good.address], { tls: { ca: right.cert } });
  assert.equal((await client.admin.info("orders")).id, 1);
});

test("a node that stands still is left", async () => {
  const still = () => {};
  const unary = "GetInfo Trim SetHold KeepHold AcquireWriter LeaseWriter KeepWriter"
    .split(" ")
    .map((name) => [`LogService/${name}`, still]);
  const others = ["SessionService/OpenSession", "SessionService/KeepSession", "CatalogService/ListLogs"];
  const streams = { "LogService/Read": still, "LogService/WatchInfo": still, "LogService/WatchWriter": still };
  using stopped = await serving(
    Object.fromEntries([...unary, ...[...others, "CatalogService/CreateLog"].map((name) => [name, still])]),
    streams,
  );
  const give = (message: Buffer) => (_: unknown, answer: sendUnaryData<Buffer>) => answer(null, message);
  const info = LogInfo.fromPartial({ id: 1, leaderTerm: 2 });
  const describe: Unary = (_, answer) => {
    info.leader = leader.address;
    answer(null, bytes(GetInfoResponse, GetInfoResponse.fromPartial({ info })));
  };
  const frame = ReadResponse.fromPartial({
    logId: 1,
    endOffset: 1,
    recordCount: 1,
    records: [{ value: Buffer.of(1) }],
  });
  using leader: Awaited<ReturnType<typeof serving>> = await serving(
    {
      "LogService/GetInfo": describe,
      "LogService/Trim": give(bytes(TrimResponse, TrimResponse.fromPartial({}))),
      "LogService/SetHold": give(bytes(SetHoldResponse, SetHoldResponse.fromPartial({}))),
      "LogService/KeepHold": give(bytes(KeepHoldResponse, KeepHoldResponse.fromPartial({}))),
      "LogService/KeepWriter": give(bytes(KeepWriterResponse, KeepWriterResponse.fromPartial({}))),
      "LogService/LeaseWriter": give(bytes(LeaseWriterResponse, LeaseWriterResponse.fromPartial({ writerTerm: 1 }))),
      "LogService/AcquireWriter": give(bytes(AcquireWriterResponse, AcquireWriterResponse.fromPartial({}))),
      "SessionService/OpenSession": give(bytes(OpenSessionResponse, OpenSessionResponse.fromPartial({ logId: 1 }))),
      "SessionService/KeepSession": give(bytes(KeepSessionResponse, KeepSessionResponse.fromPartial({}))),
      "CatalogService/ListLogs": give(bytes(ListLogsResponse, ListLogsResponse.fromPartial({}))),
      "CatalogService/CreateLog": give(bytes(CreateLogResponse, CreateLogResponse.fromPartial({}))),
    },
    {
      "LogService/Read": (call) => call.write(bytes(ReadResponse, frame)),
      "LogService/WatchWriter": (call) => call.write(bytes(WatchWriterResponse, WatchWriterResponse.fromPartial({}))),
      "LogService/WatchInfo": (call) => call.write(bytes(WatchInfoResponse, WatchInfoResponse.fromPartial({ info }))),
    },
  );
  const calls: { [name: string]: (client: Client) => Promise<unknown> } = {
    acquireWriter: ({ admin }) => admin.acquireWriter("orders"),
    openSession: ({ admin }) => admin.openSession("orders"),
    keepSession: ({ admin }) => admin.keepSession("orders", { id: "1" }),
    producer: (client) => client.producer("orders"),
    info: ({ admin }) => admin.info("orders"),
    trim: ({ admin }) => admin.trim("orders", 1),
    setHold: ({ admin }) => admin.setHold("orders", { name: "backup" }),
    keepHold: ({ admin }) => admin.keepHold("orders", "backup"),
    keepWriter: ({ admin }) => admin.keepWriter("orders", 1),
    leaseWriter: (client) => client.leaseWriter("orders", { name: "a", leaseMs: 3_600_000 }),
    watchWriter: ({ admin }) => admin.watchWriter("orders").next(),
    listLogs: ({ admin }) => admin.listLogs(),
    createLog: ({ admin }) => admin.createLog("orders"),
    watchInfo: ({ admin }) => admin.watchInfo("orders").next(),
    read: (client) => client.read("orders", { offset: 0 }).next(),
    readFollowing: (client) => client.read("orders", { offset: 0, follow: true }).next(),
    readAnyReplica: (client) => client.read("orders", { offset: 0, anyReplica: true }).next(),
    tail: (client) => client.read("orders", { tail: true, anyReplica: true }).open(),
  };
  const waited: string[] = [];
  const call = async (name: string) => {
    // Each with a client of its own: none profits from what another has found out.
    using client = new Client([stopped.address, leader.address], { retryTimeMs: 60_000 });
    const called = calls[name]?.(client).then(() => true);
    if (!(await Promise.race([called, delay(30_000, false, { ref: false })]))) waited.push(name);
  };
  await Promise.all(Object.keys(calls).map(call));
  assert.deepEqual(waited, []);
});

test("the application hears of trouble and of its end", async () => {
  const heard: (string | undefined)[] = [];
  let reads = 0;
  const frame = ReadResponse.fromPartial({
    logId: 1,
    endOffset: 1,
    recordCount: 1,
    records: [{ value: Buffer.of(1) }],
  });
  const read: Stream = (call) => {
    if (reads++ > 0) call.write(bytes(ReadResponse, frame));
    else call.emit("error", { code: status.UNAVAILABLE });
  };
  using server = await serving({ "LogService/GetInfo": known }, { "LogService/Read": read });
  using client = new Client(server.address, {
    onTrouble: (log, error) => {
      heard.push(log, error?.reason);
      throw new Error("of the application, which ends nothing");
    },
  });
  process.once("warning", () => {});
  assert.equal((await client.read("orders", { offset: 0, anyReplica: true }).next()).value?.offset, 0);
  assert.deepEqual(heard, ["orders", "UNREACHABLE", "orders", undefined]);
});

test("a batch is proved at its place and nowhere else", () => {
  const lines = readFileSync("../../internal/digest/testdata/vector.txt", "utf8").trim().split("\n");
  const batches = lines.map((line) => Buffer.from(line.split(" ")[0] as string, "hex"));
  const root = Buffer.from(lines.at(-1)?.split(" ")[1] as string, "hex");
  const hash = (...parts: Buffer[]) => createHash("sha256").update(Buffer.concat(parts)).digest();
  const leaves = batches.map((b) => hash(Buffer.of(0), b.subarray(0, 8), hash(b.subarray(21))));
  const node = (left: Buffer, right: Buffer) => hash(Buffer.of(1), left, right);
  const [a, b, c, d, e] = leaves as [Buffer, Buffer, Buffer, Buffer, Buffer];
  const [ab, cd] = [node(a, b), node(c, d)];
  const paths = [[b, cd, e], [a, cd, e], [d, ab, e], [c, ab, e], [node(ab, cd)]];
  for (const [number, path] of paths.entries()) {
    const batch = batches[number] as Buffer;
    check(batch, number, 5, path, root);
    const flipped = (at: number) => {
      const copy = Buffer.from(batch);
      copy[at] = (copy[at] as number) ^ 1;
      return copy;
    };
    const wrong: Parameters<typeof check>[] = [
      [batch.subarray(0, 60), number, 5, path, root],
      [flipped(batch.length - 1), number, 5, path, root],
      [flipped(7), number, 5, path, root],
      [batch, (number + 1) % 5, 5, path, root],
      [batch, number, 100, path, root],
      [batch, 5, 5, path, root],
      [batch, number, 5, path.slice(1), root],
      [batch, number, 5, [...path, a], root],
      [batch, number, 5, [...path.slice(1), Buffer.from("short")], root],
      [batch, number, 5, path, a],
    ];
    for (const given of wrong) assert.throws(() => check(...given), reason("UNPROVEN"));
  }
  const fourth = batches[3] as Buffer;
  const record = recordOf(fourth, 8);
  assert.deepEqual(
    [record.value?.toString(), record.key?.toString(), record.timestamp.getTime()],
    ["batch 3, record 2", "key", 1_700_000_000_002],
  );
  for (const offset of [5, 10]) assert.throws(() => recordOf(fourth, offset), reason("UNPROVEN"));
  assert.throws(() => recordOf(fourth.subarray(0, 63), 8), reason("UNPROVEN"));
  assert.throws(() => recordOf(batches[2] as Buffer, 3), reason("UNSUPPORTED"));
  const appended = Buffer.from(fourth);
  appended[22] = (appended[22] as number) | 8;
  appended.writeBigInt64BE(1_700_000_009_000n, 35);
  assert.equal(recordOf(appended, 8).timestamp.getTime(), 1_700_000_009_000);
});

test("a quantile is at most an eighth too high, and a copy stays as it is", () => {
  const histogram = new Histogram();
  assert.deepEqual([histogram.mean, histogram.quantile(0.5)], [0, 0]);
  const values = Array.from({ length: 1000 }, (_, n) => Math.floor((((n * 7919) % 1000) + 1) * 1.02 ** (n % 1000)));
  for (const value of values) histogram.record(value);
  values.sort((one, other) => one - other);
  const copy = histogram.copy();
  histogram.record(2 ** 52);
  assert.equal(copy.count, 1000);
  for (const q of [0, 0.5, 0.9, 0.99, 1]) {
    const exact = values[Math.min(999, Math.floor(q * 1000))] as number;
    assert.ok(exact <= copy.quantile(q) && copy.quantile(q) <= exact * 1.125, `${q}: ${exact} ${copy.quantile(q)}`);
  }
});
