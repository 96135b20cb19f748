// What this page knows of the cluster. It asks one page of logs at a time, so that ten thousand cost as
// little at once as a few; and it notes what changes between two answers.

import { call, readiness, whenUnauthenticated } from './api.js'
import { int } from './format.js'
import { useEffect, useReducer } from './vendor/preact.js'

const pageSize = 1000
const tick = 2000
const maxEvents = 1000

export const state = {
  me: undefined, // WhoAmI
  nodes: [],
  logs: new Map(), // by name, of what both lists know
  clusterId: '',
  level: 0,
  rules: [],
  readyNotes: [], // what the asked node says of itself
  ready: true,
  loaded: false, // every log was listed once
  statusDenied: false,
  failure: undefined, // of the last question, while it lasts
  answered: undefined, // when the node last did
  events: [], // newest first
  opened: new Date(),
  expired: false, // the node no longer accepts the token
}

const listeners = new Set()
const changed = () => { for (const f of listeners) f() }

// useState of the whole page: the component is drawn again when something has changed.
export function useCluster() {
  const [, again] = useReducer((n) => n + 1, 0)
  useEffect(() => {
    listeners.add(again)
    return () => listeners.delete(again)
  }, [])
  return state
}

// note adds an event. kind is election, node, log, replica or hold.
export function note(kind, about, text, bad = false) {
  state.events.unshift({ at: new Date(), kind, about, text, bad, id: ++notes })
  state.events.length = Math.min(state.events.length, maxEvents)
}
let notes = 0

// covers reports whether a grant on an object, such as log/orders*, holds for another one.
function covers(on, object) {
  return on === object || (on.endsWith('*') && object.startsWith(on.slice(0, -1)))
}

// may reports whether the caller has a right on an object, such as log/orders or cluster. Where its rights are too many for an answer,
// those on the cluster are in it, and any other is taken for granted: the server refuses what is not.
export function may(right, object = 'cluster') {
  const me = state.me
  if (!me) return false
  if (!me.enforced) return true
  return (me.moreRights && object !== 'cluster') || (me.rights || []).some(({ object: on, rights }) =>
    (on === 'cluster' && (rights.includes('administer') || rights.includes(right))) ||
    (covers(on, object) && (rights.includes(right) || right === 'observe')))
}

export const mayLog = (right, log) => may(right, `log/${log}`)

const cursors = { status: '', list: '' }
let round = 0 // of the current questions; an older one's answers do not count

// restart forgets everything, as after a sign in.
export async function restart() {
  const mine = ++round
  Object.assign(state, {
    me: undefined, nodes: [], logs: new Map(), loaded: false, statusDenied: false, failure: undefined, answered: undefined, expired: false,
  })
  cursors.status = cursors.list = ''
  changed()
  while (mine === round) {
    const began = performance.now()
    await once(mine)
    changed()
    const took = performance.now() - began
    // A large cluster is asked less often; a first round at once.
    const wait = state.loaded || state.failure ? Math.max(tick, 5 * took) : 0
    await new Promise((done) => setTimeout(done, document.hidden ? 5 * wait : wait))
  }
}

async function once(mine) {
  try {
    const me = state.me || await call('AccessService/WhoAmI')
    if (mine !== round) return
    if (!state.me) state.me = me
    if (me.enforced && !me.principal) {
      state.answered = new Date()
      state.failure = undefined
      return
    }
    const [listed, reported] = await Promise.all([list(mine), status(mine), state.loaded ? ready() : undefined])
    if (mine !== round) return
    if (listed && reported) state.loaded = true
    if (state.failure) note('node', '', 'This node answers again.')
    state.failure = undefined
    state.answered = new Date()
  } catch (e) {
    if (mine !== round) return
    if (!state.failure) note('node', '', `This node: ${e.message}.`, true)
    state.failure = e
  }
}

async function ready() {
  const r = await readiness()
  state.ready = r.ready
  state.readyNotes = r.notes
}

// list takes one page of ListLogs, and reports whether it was the last.
async function list(mine) {
  const after = cursors.list
  const answer = await call('CatalogService/ListLogs', { after, limit: pageSize })
  if (mine !== round) return false
  const seen = new Set()
  for (const info of answer.logs) {
    seen.add(info.name)
    const log = rowOf(info.name, info.id)
    log.listed = true
    log.bytes = info.unknown ? undefined : int(info.bytesUsed)
    log.unknown = info.unknown
    log.created = info.created
    log.config = info.config
    log.problem = info.problem
    if (state.statusDenied) {
      measure(log, int(info.startOffset), int(info.endOffset))
      log.nodes = info.replicas
      log.healthy = !info.problem
      log.leader = info.replicas.find((r) => r.leader)?.node || ''
    }
  }
  forget(after, answer.next, seen, (log) => log.listed && (state.statusDenied || !log.known))
  cursors.list = answer.next
  return answer.next === ''
}

// status takes one page of GetClusterStatus, and reports whether it was the last.
async function status(mine) {
  if (state.statusDenied || !may('observe')) {
    state.statusDenied = true
    return true
  }
  const after = cursors.status
  const answer = await call('ClusterService/GetClusterStatus', { after, limit: pageSize })
  if (mine !== round) return false
  if (after === '') {
    compareNodes(answer.nodes)
    Object.assign(state, { nodes: answer.nodes.sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true })), clusterId: answer.clusterId, level: answer.level, rules: answer.defaultRules })
  }
  const seen = new Set()
  for (const one of answer.logs) {
    seen.add(one.name)
    const log = rowOf(one.name, one.id)
    if (log.known) compareLogs(log, one)
    log.known = true
    if (one.leader) measure(log, int(one.startOffset), int(one.endOffset))
    Object.assign(log, {
      leader: one.leader, term: int(one.term), healthy: one.healthy, replicas: one.replicas, rule: one.rule, unmet: one.unmet, creator: one.creator,
      lag: Math.max(0, ...one.replicas.filter((r) => r.role !== 'REPLICA_ROLE_READ_REPLICA').map((r) => int(r.lag) || 0)),
    })
  }
  forget(after, answer.next, seen, (log) => log.known)
  cursors.status = answer.next
  return answer.next === ''
}

function rowOf(name, id) {
  let log = state.logs.get(name)
  if (log && log.id !== id) {
    note('log', name, `${name} was deleted and created again.`)
    log = undefined
  }
  if (!log) {
    log = { name, id, system: name.startsWith('_'), replicas: [], unmet: [] }
    state.logs.set(name, log)
    if (state.loaded) note('log', name, `${name} was created.`)
  }
  return log
}

// measure notes where a log ends, and its rate since the last time.
function measure(log, start, end) {
  const now = performance.now()
  if (log.at !== undefined && now - log.at > 200) {
    const rate = Math.max(0, end - log.end) / ((now - log.at) / 1000)
    log.rate = rate
  }
  if (log.start !== undefined && start > log.start && state.loaded) log.trimmed = start
  Object.assign(log, { start, end, at: now })
}

// forget removes what a page would have held if it was still there.
function forget(after, next, seen, counts) {
  for (const [name, log] of state.logs) {
    if (name > after && (next === '' || name <= next) && counts(log) && !seen.has(name)) {
      state.logs.delete(name)
      note('log', name, `${name} was deleted.`)
    }
  }
}

function compareNodes(now) {
  if (!state.nodes.length) return
  const before = new Map(state.nodes.map((n) => [n.name, n]))
  for (const n of now) {
    const was = before.get(n.name)
    before.delete(n.name)
    if (!was) note('node', n.name, `Node ${n.name} joined.`)
    else if (was.alive !== n.alive) note('node', n.name, n.alive ? `Node ${n.name} answers again.` : `Node ${n.name} does not answer.`, !n.alive)
    else if (was.drained !== n.drained) note('node', n.name, n.drained ? `Node ${n.name} is drained.` : `Node ${n.name} leads again.`)
    else if (was.version !== n.version && n.version && was.version) note('node', n.name, `Node ${n.name} runs ${n.version} now, before ${was.version}.`)
  }
  for (const name of before.keys()) note('node', name, `Node ${name} was removed.`)
}

function compareLogs(was, now) {
  if (was.leader !== now.leader) {
    note('election', now.name, now.leader
      ? `${now.name}: ${now.leader} leads at term ${now.term}${was.leader ? `, before ${was.leader}` : ''}.`
      : `${now.name} has no leader; ${was.leader} led.`, !now.leader)
  }
  const before = new Map(was.replicas.map((r) => [r.replica, r]))
  for (const r of now.replicas) {
    const old = before.get(r.replica)
    before.delete(r.replica)
    const word = replicaWord(r)
    if (!old && r.node) note('replica', now.name, `${now.name}: a replica on ${r.node} is ${word}.`)
    else if (old && old.role !== r.role) note('replica', now.name, `${now.name}: the replica on ${r.node} is a ${roleWord(r)} now.`)
    else if (old && replicaWord(old) !== word && ['unreachable', 'repairing', 'lost', 'snapshot'].some((w) => w === word || w === replicaWord(old))) {
      note('replica', now.name, `${now.name}: the replica on ${r.node} is ${word}.`, ['unreachable', 'lost', 'repairing'].includes(word))
    }
  }
  for (const r of before.values()) note('replica', now.name, `${now.name}: the replica on ${r.node} was removed.`)
  if (was.trimmed) {
    note('log', now.name, `${now.name} was trimmed: it starts at ${was.trimmed}.`)
    was.trimmed = undefined
  }
}

// consoleOf returns the address of a node's own console, by the node's name or the address of its gRPC port, or
// undefined where this browser cannot reach it by what is known: a port on loopback is that of this machine.
export function consoleOf(node) {
  const n = state.nodes.find((n) => n.name === node || n.address === node)
  const found = /^(.*):(\d+)$/.exec(n?.httpAddress || '')
  if (!found) return undefined
  let [, host, port] = found
  if (host === '0.0.0.0' || host === '[::]' || host === '') host = n.address.replace(/:\d+$/, '')
  const loopback = (h) => h === 'localhost' || h === '[::1]' || h.startsWith('127.')
  if (loopback(host)) {
    if (!loopback(location.hostname)) return undefined
    if (location.hostname === 'localhost' && host === '127.0.0.1') host = 'localhost' // it stays one name for a browser
  }
  return `${location.protocol}//${host}:${port}/`
}

const word = (text, prefix) => text.slice(prefix.length).toLowerCase().replaceAll('_', ' ')

export const replicaWord = (r) => (r.state === 'REPLICA_STATE_UNSPECIFIED' ? 'unknown' : word(r.state, 'REPLICA_STATE_'))
export const roleWord = (r) => word(r.role, 'REPLICA_ROLE_')

whenUnauthenticated(() => {
  if (state.me && !state.me.principal) return // who signs in sees the refusal
  state.expired = true
  changed()
})
