// One record there and back by kafkajs: node login.mjs BOOTSTRAP LOG VALUE KEY=VALUE..., settings by librdkafka's names.
import assert from 'node:assert'
import fs from 'node:fs'
import kafkajs from 'kafkajs'

const { Kafka, Partitioners, logLevel } = kafkajs
const [bootstrap, log, value, ...pairs] = process.argv.slice(2)
const settings = Object.fromEntries(pairs.map((pair) => pair.split(/=(.*)/s)))
const file = (name) => settings[name] && fs.readFileSync(settings[name])
const kafka = new Kafka({
  brokers: bootstrap.split(','),
  logLevel: logLevel.NOTHING,
  ssl: settings['security.protocol'].endsWith('SSL') && {
    ca: [file('ssl.ca.location')],
    cert: file('ssl.certificate.location'),
    key: file('ssl.key.location'),
  },
  sasl: settings['sasl.mechanism'] && {
    mechanism: settings['sasl.mechanism'].toLowerCase(),
    username: settings['sasl.username'],
    password: settings['sasl.password'],
  },
  retry: { retries: 2 },
})
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
try {
  await producer.connect()
} catch (e) {
  if (e.name !== 'KafkaJSSASLAuthenticationError') throw e
  console.error(`refused: ${e.message}`)
  process.exit(1)
}
const [{ baseOffset }] = await producer.send({ topic: log, messages: [{ value }] })
await producer.disconnect()

const consumer = kafka.consumer({ groupId: 'logins-kafkajs' })
await consumer.connect()
await consumer.subscribe({ topics: [log], fromBeginning: true })
await new Promise((done) => {
  consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => {
      if (message.offset !== baseOffset) return
      assert.equal(message.value.toString(), value)
      done()
    },
  })
})
await consumer.disconnect()
