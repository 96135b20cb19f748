// The protocol's own tests, against the server whose URL is in STREAMS_URL.
import { runConformanceTests } from '@durable-streams/server-conformance-tests'

runConformanceTests({ baseUrl: process.env.STREAMS_URL })
