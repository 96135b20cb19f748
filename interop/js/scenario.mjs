// kafkajs: node scenario.mjs BOOTSTRAP LOG NODES
import assert from 'node:assert'
import kafkajs from 'kafkajs'
import LZ4 from 'kafkajs-lz4'
import snappy from 'kafkajs-snappy'
import { ZstdCodec } from 'zstd-codec'

const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, logLevel } = kafkajs
// kafkajs itself has gzip alone; the others are plugged in, zstd by hand.
const zstd = await new Promise((done) => ZstdCodec.run((z) => done(new z.Simple())))
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
})

const [bootstrap, log, nodes] = process.argv.slice(2)
const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.ERROR })
const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const per = 20
const values = [0, 1, 2].map((i) => `grpc-${i}`)

// between waits for the clock, and returns a time in ms that is after every
// record so far and not after any that is yet to be made.
async function between() {
  const time = Date.now() + 1
  while (Date.now() < time) await new Promise((done) => setTimeout(done, 1))
  return time
}

const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner })
await producer.connect()
let beforeLast
for (const [name, compression] of Object.entries(codecs)) {
  const more = Array.from({ length: per }, (_, i) => `${name}-${i}`)
  beforeLast = await between()
  await producer.send({ topic: log, compression, messages: more.map((value) => ({ value })) })
  values.push(...more)
}
await producer.disconnect()

// kafkajs reads in groups alone. consume reads what is expected from an offset
// on; seek moves the group there first.
async function consume(groupId, first, seek) {
  const consumer = kafka.consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topic: log, fromBeginning: true })
  const seen = []
  await new Promise((done) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        // What was fetched before the seek is not ours.
        if (Number(message.offset) < first) return
        seen.push([Number(message.offset), message.value.toString()])
        if (seen.length === values.length - first) done()
      },
    })
    if (seek) consumer.seek({ topic: log, partition: 0, offset: String(first) })
  })
  assert.deepEqual(seen, values.map((value, i) => [i, value]).slice(first))
  await consumer.disconnect()
}

await consume(log, 0, false)

const admin = kafka.admin()
await admin.connect()
assert.equal((await admin.fetchOffsets({ groupId: log }))[0].partitions[0].offset, String(values.length))
const found = (await admin.fetchTopicOffsetsByTimestamp(log, beforeLast))[0].offset
assert.equal(found, String(values.length - per))
await consume(log + '-from-a-time', Number(found), true)
// kafkajs looks for the leader in the metadata that its last call was about.
assert.equal((await admin.fetchTopicOffsets(log))[0].low, '0')
await admin.deleteTopicRecords({ topic: log, partitions: [{ partition: 0, offset: '5' }] })
assert.equal((await admin.fetchTopicOffsets(log))[0].low, '5')
await admin.createTopics({ topics: [{ topic: log + '-more', numPartitions: 3, replicationFactor: Number(nodes) }] })
assert.ok((await admin.listTopics()).includes(log + '-more'))
assert.equal((await admin.fetchTopicMetadata({ topics: [log + '-more'] })).topics[0].partitions.length, 3)
await admin.disconnect()
process.exit(0)
