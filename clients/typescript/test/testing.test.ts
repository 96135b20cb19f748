// The server for tests, where it does not start or is asked twice. hello.test.ts is its use.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { startServer } from "../src/testing.js";

const changed = ["PATH", "STRANDLINE", "STRANDLINE_SERVE_GRPC", "TMPDIR"];
const before = changed.map((name) => [name, process.env[name]] as const);
let folder = "";
let temporary = ""; // where servers have their data

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "strandline-testing-"));
  temporary = join(folder, "temporary");
  mkdirSync(temporary);
  process.env.TMPDIR = temporary;
});

afterEach(() => {
  for (const [name, value] of before) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  rmSync(folder, { recursive: true });
});

function standIn(script: string): string {
  const path = join(folder, "strandline");
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

test("a server that does not start says why and leaves nothing", async () => {
  process.env.STRANDLINE = standIn("echo no room >&2; exit 1");
  await assert.rejects(startServer(), /no room/);
  assert.deepEqual(readdirSync(temporary), []);
});

test("a machine without a program says how to have one", async () => {
  delete process.env.STRANDLINE;
  process.env.PATH = folder;
  await assert.rejects(startServer(), /strandline-server/);
  assert.deepEqual(readdirSync(temporary), []);
});

test("variables of the command line do not reach the server", async () => {
  const announced = JSON.stringify({ grpc: "none$STRANDLINE_SERVE_GRPC", http: "$*" });
  process.env.STRANDLINE = standIn(`cat <<END\n${announced}\nEND\nexec sleep 60`);
  process.env.STRANDLINE_SERVE_GRPC = "10.0.0.1:7171";
  const server = await startServer("--memory", "64MiB");
  assert.equal(server.address, "none");
  assert.match(server.http, /--kafka none --memory 64MiB$/);
  await server.stop();
  await server.stop();
  assert.deepEqual(readdirSync(temporary), []);
});
