// What needs no server. Everything else is in the scenarios, which the runner beside this plays.
import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";
import { Metadata, status } from "@grpc/grpc-js";
import { fromRefusal, fromRpc } from "../src/errors.js";
import { ErrorInfo, Status } from "../src/generated/status.js";
import { Client, StrandlineError } from "../src/index.js";
import { Pauses } from "../src/peers.js";
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

test("a signal bounds a call", async () => {
  using server = await silent();
  const client = new Client(server.address);
  await assert.rejects(client.admin.info("orders", { signal: AbortSignal.timeout(100) }), reason("CANCELLED"));
  client.close();
});

test("options that make no sense are refused", async () => {
  const client = new Client("127.0.0.1:1");
  for (const wrong of [{ offset: -1 }, { offset: 1, tail: true }, { maxStalenessMs: 0 }]) {
    assert.throws(() => client.read("orders", wrong), reason("INVALID"));
  }
  const resume = { logId: 1, session: 1, epoch: 0, next: 0 };
  for (const wrong of [{ bufferBytes: 0 }, { lingerMs: -1 }, { maxInFlight: Number.NaN }, { session: false, resume }]) {
    assert.throws(() => client.producer("orders", wrong), reason("INVALID"));
  }
  client.close();
});

function rpcError(domain: string) {
  const metadata = new Metadata();
  const info = { reason: "FENCED", domain, metadata: { outcome: "not_done", writer_term: "4" } };
  const details = [{ typeUrl: "type/google.rpc.ErrorInfo", value: Buffer.from(ErrorInfo.encode(info).finish()) }];
  metadata.set("grpc-status-details-bin", Buffer.from(Status.encode({ details }).finish()));
  return fromRpc({ code: status.UNAVAILABLE, details: "words", metadata });
}

test("the facts of a status are read", () => {
  const { reason, writerTerm, outcome, retryable } = rpcError("strandline.dev");
  assert.deepEqual([reason, writerTerm, outcome, retryable], ["FENCED", 4, "not_done", false]);
});

test("what is not from a log may be done", () => {
  const { reason, outcome, retryable } = rpcError("example.org");
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

test("pauses grow, to a bound", async () => {
  const pauses = new Pauses();
  for (let n = 0; n < 5; n++) await pauses.wait();
  assert.equal(pauses.delay, 100);
});
