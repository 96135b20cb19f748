/**
 * A server for tests: a process with data of its own.
 *
 * @packageDocumentation
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** How long a server may take until it serves, and until it has ended. */
const startsWithinMs = 30_000;
const stopsWithinMs = 10_000;

/** A cluster of one node on free ports of this machine. */
export class TestServer implements AsyncDisposable {
  /** Where clients connect to: HOST:PORT. */
  readonly address: string;
  /** HOST:PORT of JSON over HTTP, metrics and health. */
  readonly http: string;
  readonly #child: ChildProcess;
  readonly #data: string;

  /** @internal */
  constructor(child: ChildProcess, data: string, at: { grpc: string; http: string }) {
    this.address = at.grpc;
    this.http = at.http;
    this.#child = child;
    this.#data = data;
  }

  /** Ends the server and removes its data. A second call does nothing. */
  async stop(): Promise<void> {
    await end(this.#child);
    await rm(this.#data, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/**
 * Starts a server, with more flags of `strandline serve`, and resolves when it serves. Its data are in a temporary
 * folder. Variables STRANDLINE_* do not apply to it.
 *
 * Its program is that of the variable STRANDLINE, of the package strandline-server, or the first in PATH. It rejects
 * if there is none, and with what the server has written if it does not start.
 */
export async function startServer(...flags: string[]): Promise<TestServer> {
  const data = await mkdtemp(join(tmpdir(), "strandline-test-"));
  try {
    return await start(data, flags);
  } catch (error) {
    await rm(data, { recursive: true, force: true });
    throw error;
  }
}

async function start(data: string, flags: string[]): Promise<TestServer> {
  const command = await program();
  const ports = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "none"];
  const said = join(data, "stderr");
  const stderr = await open(said, "w");
  const child = spawn(command, ["serve", "--json", "--data", join(data, "data"), ...ports, ...flags], {
    stdio: ["ignore", "pipe", stderr.fd],
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STRANDLINE"))),
  });
  try {
    const line = await firstLine(child);
    if (line === undefined) {
      throw new Error(`${command} did not start: ${(await readFile(said, "utf8")).slice(-4000)}`);
    }
    return new TestServer(child, data, JSON.parse(line));
  } catch (error) {
    await end(child);
    throw error;
  } finally {
    await stderr.close();
  }
}

/** What the child writes first, or undefined if it ends before, or has not written in time. */
async function firstLine(child: ChildProcess): Promise<string | undefined> {
  const overdue = setTimeout(() => child.kill("SIGKILL"), startsWithinMs);
  try {
    return await new Promise<string | undefined>((resolve, reject) => {
      child.once("error", (error: NodeJS.ErrnoException) => reject(error.code === "ENOENT" ? noProgram(error) : error));
      if (!child.stdout) throw new Error("the child has no output");
      createInterface(child.stdout)
        .once("line", resolve)
        .once("close", () => resolve(undefined));
    });
  } finally {
    clearTimeout(overdue);
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const overdue = setTimeout(() => child.kill("SIGKILL"), stopsWithinMs);
  child.kill("SIGTERM");
  await ended;
  clearTimeout(overdue);
}

async function program(): Promise<string> {
  if (process.env.STRANDLINE) return process.env.STRANDLINE;
  const packed = "strandline-server"; // which need not be installed
  try {
    return ((await import(packed)) as { program: string }).program;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ERR_MODULE_NOT_FOUND" && code !== "MODULE_NOT_FOUND") throw error;
    return "strandline";
  }
}

function noProgram(cause: Error): Error {
  return new Error(
    "there is no server to start: set STRANDLINE to the path of the program strandline, install the package " +
      "strandline-server, or have strandline in PATH",
    { cause },
  );
}
