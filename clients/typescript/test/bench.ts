// Appends or reads for `strandline bench`: bench/driver says what goes through standard input and output.
//
//     bench.js append|read ADDRESSES LOG OPTIONS
import { writeSync } from "node:fs";
import { Client } from "../src/index.js";

interface Options {
  no_session: boolean;
  linger_ms: number;
  in_flight: number;
  buffer_bytes: number;
  request_bytes: number;
  offset: number;
  until_offset: number;
  follow: boolean;
}

const answers = Buffer.alloc(64 << 10);
let answered = 0;

function answer(outcome: number): void {
  if (answered === 0) setImmediate(writeAnswers); // with those that come in the same turn of the loop
  answers[answered++] = outcome;
  if (answered === answers.length) writeAnswers();
}

function writeAnswers(): void {
  write(answers.subarray(0, answered));
  answered = 0;
}

/** Pipes are not blocking to Node: a full one says so. */
function write(bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
}

async function append(client: Client, log: string, o: Options): Promise<void> {
  const producer = await client.producer(log, {
    session: !o.no_session,
    lingerMs: o.linger_ms,
    maxInFlight: o.in_flight || undefined,
    bufferBytes: o.buffer_bytes || undefined,
    maxRequestBytes: o.request_bytes || undefined,
  });
  const done = () => answer(0);
  const failed = (error: unknown) => {
    console.error(error);
    answer(1);
  };
  write(Buffer.of(0)); // ready
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    const data: Buffer = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    let at = 0;
    while (data.length - at >= 4) {
      const end = at + 4 + data.readUInt32BE(at);
      if (end > data.length) break;
      producer.append(data.subarray(at + 4, end)).then(done, failed);
      at = end;
    }
    rest = data.subarray(at);
    await producer.ready();
  }
  await producer.close();
  writeAnswers();
}

async function read(client: Client, log: string, o: Options): Promise<void> {
  const reader = client.read(log, { offset: o.offset, untilOffset: o.until_offset, follow: o.follow });
  for (let batch = await reader.nextBatch(); batch.length > 0; batch = await reader.nextBatch()) {
    const run = Buffer.alloc(8);
    run.writeUInt32BE(batch.length);
    run.writeUInt32BE(
      batch.reduce((sum, { value }) => sum + (value?.length ?? 0), 0),
      4,
    );
    write(run);
  }
}

const [verb, addresses = "", log = "", options = "{}"] = process.argv.slice(2);
const client = new Client(addresses.split(","));
await (verb === "read" ? read : append)(client, log, JSON.parse(options));
client.close();
