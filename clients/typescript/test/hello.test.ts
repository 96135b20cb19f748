import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "strandline";
import { startServer } from "strandline/testing";

test("a record that was appended is read", async () => {
  await using server = await startServer();
  const client = new Client(server.address);
  await client.admin.createLog("orders");
  const producer = await client.producer("orders");
  const offset = await producer.append("first");
  await producer.close();
  for await (const record of client.read("orders", { offset })) {
    assert.equal(record.value?.toString(), "first");
    break;
  }
  client.close();
});
