// The end of a block with a writer lease. Everything else is in the scenarios.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "strandline";
import { startServer } from "strandline/testing";

test("the end of a block releases a lease, and one that has ended is left", async () => {
  await using server = await startServer();
  using client = new Client(server.address);
  await client.admin.createLog("orders");
  const claim = { name: "first", leaseMs: 3_600_000, payload: Buffer.from("10.0.0.1:80") };
  {
    await using lease = await client.leaseWriter("orders", claim);
    assert.deepEqual([lease.term, lease.endOffset, lease.ended], [1, 0, false]);
    assert.ok(lease.leftMs > 3_000_000);
    for await (const { holder } of client.admin.watchWriter("orders")) {
      assert.deepEqual(holder, claim);
      break;
    }
  }
  {
    await using lease = await client.leaseWriter("orders", { ...claim, name: "second" });
    assert.equal(lease.term, 2);
    await client.admin.acquireWriter("orders");
    await assert.rejects(lease.handOver("third"), { reason: "FENCED" });
    assert.equal((await lease.done)?.reason, "FENCED");
  }
  await assert.rejects(client.leaseWriter("orders", { ...claim, leaseMs: Number.NaN }), { reason: "INVALID" });
});
