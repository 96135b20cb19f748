// What needs no server. Everything else is in the scenarios, which the runner beside this plays.
import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { Backlog, complete } from "../src/backlog.js";
import { fromRefusal, fromRpc } from "../src/errors.js";
import { ErrorInfo, Status } from "../src/generated/status.js";
import { AppendResponse, GetInfoResponse } from "../src/generated/strandline/v1/log.js";
import { OpenSessionResponse, ResolveResponse, ResolveState } from "../src/generated/strandline/v1/session.js";
import { Client, StrandlineError } from "../src/index.js";
import { Pauses } from "../src/peers.js";
import { toWire } from "../src/records.js";
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
async function serving(unary: { [method: string]: Unary }, streams: { [method: string]: Stream } = {}) {
  const server = new Server();
  const same = (bytes: Buffer) => bytes;
  for (const [name, does] of Object.entries(unary)) {
    server.register(`/strandline.v1.${name}`, does, same, same, "unary");
  }
  for (const [name, does] of Object.entries(streams)) {
    server.register(`/strandline.v1.${name}`, does, same, same, "bidi");
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
  return { address: `127.0.0.1:${port}`, [Symbol.dispose]: () => server.forceShutdown() };
}

function bytes<M>(codec: { encode(message: M): { finish(): Uint8Array } }, message: M): Buffer {
  return Buffer.from(codec.encode(message).finish());
}

const known: Unary = (_, answer) =>
  answer(null, bytes(GetInfoResponse, GetInfoResponse.fromPartial({ info: { id: 1 } })));

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
 * that the record is in the log at offset 7, once it may.
 */
function losing(may: Promise<unknown>, others: { [method: string]: Unary } = {}) {
  const opened = bytes(OpenSessionResponse, OpenSessionResponse.fromPartial({ sessionId: "1", logId: 1 }));
  const state = ResolveState.RESOLVE_STATE_COMMITTED;
  const resolved = bytes(ResolveResponse, ResolveResponse.fromPartial({ state, offset: 7 }));
  const refusal = { reason: "SESSION_EXPIRED", metadata: { outcome: "not_done" } };
  const refused = bytes(AppendResponse, AppendResponse.fromPartial({ refused: refusal }));
  let count = 0;
  const append: Stream = (call) => {
    const lost = count++ === 0;
    call.on("data", () => {
      if (lost) call.emit("error", { code: status.UNAVAILABLE });
      else call.write(refused);
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
  for (const _ of appended) backlog.seal();
  backlog.window.sent = 3;
  backlog.fail({ error: new StrandlineError("SEALED", "no more"), refused: backlog.window.oldest() as Request });
  backlog.leave();
  const outcomes = await Promise.allSettled(appended);
  assert.ok(outcomes.every(({ status }) => status === "rejected"));
  assert.equal(backlog.window.sent, 2);
  assert.equal(backlog.newest(), undefined);
});

test("pauses grow, to a bound", async () => {
  const pauses = new Pauses();
  for (let n = 0; n < 5; n++) await pauses.wait();
  assert.equal(pauses.delay, 100);
});
