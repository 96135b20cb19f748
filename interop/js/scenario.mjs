// kafkajs: node scenario.mjs BOOTSTRAP LOG NODES
import assert from 'node:assert'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'

const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = snappy

const [bootstrap, log, nodes] = process.argv.slice(2)
const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.ERROR })
const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner })
await producer.connect()
for (const [name, compression] of Object.entries(codecs)) {
  await producer.send({ topic: log, compression, messages: Array.from({ length: 20 }, (_, i) => ({ value: `${name}-${i}` })) })
}
await producer.disconnect()
const count = 3 + 20 * Object.keys(codecs).length

const consumer = kafka.consumer({ groupId: log })
await consumer.connect()
await consumer.subscribe({ topic: log, fromBeginning: true })
const offsets = []
await new Promise((done) => {
  consumer.run({
    eachMessage: async ({ message }) => {
      offsets.push(Number(message.offset))
      if (offsets.length === count) done()
    },
  })
})
assert.deepEqual(offsets, Array.from({ length: count }, (_, i) => i))
await consumer.disconnect()

const admin = kafka.admin()
await admin.connect()
assert.equal((await admin.fetchTopicOffsetsByTimestamp(log, Date.now() - 3600_000))[0].offset, '0')
await admin.createTopics({ topics: [{ topic: log + '-more', numPartitions: 3, replicationFactor: Number(nodes) }] })
assert.ok((await admin.listTopics()).includes(log + '-more'))
await admin.deleteTopicRecords({ topic: log, partitions: [{ partition: 0, offset: '5' }] })
assert.equal((await admin.fetchTopicOffsets(log))[0].low, '5')
assert.equal((await admin.fetchOffsets({ groupId: log }))[0].partitions[0].offset, String(count))
await admin.disconnect()
process.exit(0)
