// Calls of strandline.v1 as JSON over HTTP, of the node that served this page. The token is kept in the
// tab (sessionStorage), and sent in a header only.

const tokenKey = 'strandline.token'

let secret = sessionStorage.getItem(tokenKey) || ''

export const signedIn = () => secret !== ''

export function signIn(token) {
  secret = token
  if (token) sessionStorage.setItem(tokenKey, token)
  else sessionStorage.removeItem(tokenKey)
}

const onUnauthenticated = new Set()

// whenUnauthenticated has f called when the node no longer accepts who calls.
export const whenUnauthenticated = (f) => onUnauthenticated.add(f)

// Failure is an error of a call: reason, message, retryable, outcome and metadata as docs/errors.md has them.
export class Failure extends Error {
  constructor(status, body) {
    super(body.message || `HTTP status ${status}`)
    this.status = status
    this.reason = body.reason || ''
    this.retryable = !!body.retryable
    this.outcome = body.outcome || 'maybe_done'
    this.metadata = body.metadata || {}
    this.hold = body.hold
  }

  // denied: the caller lacks the right, or has not said who it is.
  get denied() {
    return this.status === 403 || this.status === 401
  }
}

const unreachable = () => new Failure(0, { reason: 'UNREACHABLE', message: 'this node does not answer', retryable: true })

function headers(more) {
  return secret ? { ...more, Authorization: `Bearer ${secret}` } : more
}

async function ask(path, options) {
  let answer
  try {
    answer = await fetch(path, { cache: 'no-store', credentials: 'same-origin', referrerPolicy: 'no-referrer', ...options })
  } catch (e) {
    if (e.name === 'AbortError') throw e
    throw unreachable()
  }
  if (answer.ok) return answer
  const text = await answer.text().catch(() => '')
  let body
  try {
    body = JSON.parse(text)
  } catch {
    body = { message: text.trim(), outcome: answer.status < 500 ? 'not_done' : 'maybe_done' }
  }
  const failure = new Failure(answer.status, body)
  if (answer.status === 401) for (const f of onUnauthenticated) f(failure)
  throw failure
}

const post = (method, body, signal) => ask(`/strandline.v1.${method}`, {
  method: 'POST', headers: headers({ 'Content-Type': 'application/json' }), body, signal,
})

// call returns the answer to one request.
export async function call(method, request = {}, signal) {
  const answer = await post(method, JSON.stringify(request), signal)
  try {
    return await answer.json()
  } catch (e) {
    if (e.name === 'AbortError') throw e
    throw unreachable()
  }
}

// stream calls each with every message of an answer, and returns when it ends.
export async function stream(method, request, each, signal) {
  const answer = await post(method, JSON.stringify(request), signal)
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    let part
    try {
      part = await reader.read()
    } catch (e) {
      if (e.name === 'AbortError' || signal?.aborted) throw e
      throw unreachable()
    }
    if (part.done) return
    const lines = (rest + part.value).split('\n')
    rest = lines.pop()
    for (const line of lines) {
      if (!line) continue
      const message = JSON.parse(line)
      if (message.error) throw new Failure(200, message.error)
      each(message.result)
    }
  }
}

// append appends records, and returns where they are and where the time went.
export async function append(log, logId, records) {
  let result
  await stream('LogService/Append', { log, logId, records, explain: true }, (message) => { result = message })
  if (result?.refused) {
    const { reason, message, metadata } = result.refused
    throw new Failure(200, { reason, message, metadata, retryable: metadata?.retryable === 'true', outcome: metadata?.outcome })
  }
  if (!result?.appended) throw unreachable()
  return result
}

// text returns a page of the HTTP port that is not JSON.
export async function text(path, signal) {
  return (await ask(path, { headers: headers({}), signal })).text()
}

// readiness returns whether the node serves all of its logs, and its notes, one a line.
export async function readiness() {
  try {
    const lines = (await text('/readyz')).trim().split('\n')
    return { ready: true, notes: lines.slice(1) }
  } catch (e) {
    return { ready: false, notes: e.status === 503 ? e.message.split('\n') : [] }
  }
}

// metrics returns the samples of a page of Prometheus: those(name, labels) adds up the values that match.
export async function metrics(path, signal) {
  const samples = new Map()
  for (const line of (await text(path, signal)).split('\n')) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line)
    if (!found || line[0] === '#') continue
    const labels = {}
    for (const [, name, value] of (found[2] || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value.replace(/\\(["\\n])/g, (_, c) => (c === 'n' ? '\n' : c))
    if (!samples.has(found[1])) samples.set(found[1], [])
    samples.get(found[1]).push({ labels, value: Number(found[3]) })
  }
  const list = (name, want = {}) => (samples.get(name) || []).filter((s) => Object.entries(want).every(([k, v]) => s.labels[k] === v))
  return { list, sum: (name, want) => (samples.has(name) ? list(name, want).reduce((n, s) => n + s.value, 0) : undefined) }
}
