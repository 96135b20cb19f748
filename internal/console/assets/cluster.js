// The cluster: what is wrong and what to do first, its nodes, and where this node's time goes.

import { html, useEffect, useState } from './vendor/preact.js'
import { call, metrics } from './api.js'
import { bytes, count, int, plural, quote, rate, seconds } from './format.js'
import { Action, Chart, Command, Copy, Empty, Meter, State, Time, useEvery, Wrong } from './parts.js'
import { consoleOf, may, replicaWord, state, useCluster } from './state.js'

export function Cluster() {
  const cluster = useCluster()
  const logs = [...cluster.logs.values()]
  if (cluster.statusDenied) {
    return html`<h1>Cluster</h1><${Empty} title="You may not see the nodes of this cluster.">
      <p>That needs the right to observe it. An administrator grants it:</p>
      <${Command} text=${`strandline grant add ${cluster.me.principal || 'user/NAME'} observe cluster`} />
      <p>What you may observe is under <a href="#/logs">Logs</a>.</p><//>`
  }
  if (!cluster.nodes.length) return html`<h1>Cluster</h1><p class="quiet loading">${cluster.failure ? '' : 'Asking the nodes …'}</p>${cluster.failure?.status ? html`<${Wrong} failure=${cluster.failure} />` : ''}`
  const alive = cluster.nodes.filter((n) => n.alive).length
  const users = logs.filter((l) => !l.system)
  const unhealthy = users.filter((l) => l.healthy === false).length
  const total = users.reduce((n, l) => n + (l.rate || 0), 0)
  return html`
    <div class="title"><h1>Cluster</h1></div>
    <dl class="facts">
      <div><dt>Nodes</dt><dd>${alive} <small>of ${cluster.nodes.length} answer</small></dd></div>
      <div><dt>Logs</dt><dd>${count(users.length)}${cluster.loaded ? '' : '+'} <small>${unhealthy ? `of which ${count(unhealthy)} not healthy` : 'all healthy'}</small></dd></div>
      <div><dt>Appends</dt><dd>${rate(total)} <small>records</small></dd></div>
      <div><dt>Feature level</dt><dd>${cluster.level}</dd></div>
    </dl>
    <${Problems} logs=${logs} />
    <section><div class="section-head"><h2>Nodes</h2><span class="aside">${may('administer') && html`<${Rebalance} /><${Finalize} />`}</span></div><${Nodes} logs=${logs} /></section>
    <${ThisNode} />
    ${may('administer') && html`<${Connections} />`}`
}

const marks = { bad: '✕', warn: '▲', note: '○' }

function Problems({ logs }) {
  const found = problems(state, logs)
  if (!found.length && state.failure) return html`<div class="well quiet">Nothing was wrong when this node last answered.</div>`
  if (!found.length) return html`<div class="well"><${State} kind="good">Nothing is wrong: every node answers, every log has a leader, and all replicas keep up.<//></div>`
  return html`<ul class="problems" aria-label="What to do first">${found.map((p) => html`<li key=${p.what}>
    <i class=${p.kind === 'note' ? 'quiet' : p.kind} aria-hidden="true">${marks[p.kind]}</i>
    <div><p><b class=${p.kind === 'bad' ? 'bad' : ''}>${p.what}</b> ${p.so}</p>${p.link && html`<p><a href=${p.link[0]}>${p.link[1]}</a></p>`}${p.command && html`<${Command} text=${p.command} />`}</div>
  </li>`)}</ul>`
}

const some = (names, most = 3) => names.slice(0, most).join(', ') + (names.length > most ? ` and ${count(names.length - most)} more` : '')

// problems returns what is wrong, the worst first, each with what to do about it.
export function problems(cluster, logs) {
  const found = []
  const down = cluster.nodes.filter((n) => !n.alive)
  const leaderless = logs.filter((l) => l.known && !l.leader)
  if (leaderless.length) {
    found.push({
      kind: 'bad', what: `${plural(leaderless.length, 'log has', 'logs have')} no leader and ${leaderless.length === 1 ? 'takes' : 'take'} no appends: ${some(leaderless.map((l) => l.name))}.`,
      so: down.length ? `A majority of ${leaderless.length === 1 ? 'its' : 'their'} nodes does not answer. Start ${some(down.map((n) => n.name))}.` : 'If this lasts for more than some seconds, look at the network between the nodes and at their logs.',
      command: 'strandline cluster status --unhealthy', link: ['#/logs?show=unhealthy', 'Show them'],
    })
  }
  for (const n of down) {
    const led = logs.filter((l) => (l.replicas || []).some((r) => r.node === n.name)).length
    const spare = cluster.nodes.find((o) => o.alive && o.name !== n.name)
    found.push({
      kind: 'bad', what: `Node ${n.name} does not answer.`,
      so: `It holds replicas of ${plural(led, 'log')}, which have one less to lose. Start it; if it does not start, the last line of its log says why. If its machine is lost, replace it by another node${spare ? '' : ' that you add'}.`,
      command: `strandline cluster replace-node ${quote(n.name)} --with NODE`,
    })
  }
  const broken = new Map()
  for (const l of logs) for (const r of l.replicas || []) if (r.problem && !down.some((n) => n.name === r.node)) broken.set(r.problem, [...(broken.get(r.problem) || []), l.name])
  for (const [problem, names] of broken) found.push({ kind: 'bad', what: `${some(names)}: ${problem}.`, so: 'Repair the disk and start the node again, or replace it.' })
  for (const line of cluster.readyNotes) found.push({ kind: 'warn', what: line.endsWith('.') ? line : line + '.', so: '' })
  for (const n of cluster.nodes) {
    const [free, all] = [int(n.bytesFree), int(n.bytesTotal)]
    if (n.alive && all && free / all < 0.1) found.push({ kind: free / all < 0.03 ? 'bad' : 'warn', what: `The disk of ${n.name} has ${bytes(free)} left of ${bytes(all)}.`, so: 'Trim logs, shorten their retention, or give the disk room: a full one takes no records.' })
    const [used, memory] = [int(n.memoryUsed), int(n.memoryTotal)]
    if (n.alive && memory && used / memory > 0.9) found.push({ kind: 'warn', what: `${n.name} uses ${bytes(used)} of ${bytes(memory)} of memory for its clients.`, so: 'Calls are soon refused with BUSY, which clients repeat. Give it more --memory, or find who takes it under Connections.' })
  }
  const thin = logs.filter((l) => l.known && l.leader && !l.healthy && !(l.replicas || []).some((r) => down.some((n) => n.name === r.node)))
  if (thin.length) found.push({ kind: 'warn', what: `${plural(thin.length, 'log is', 'logs are')} not healthy: ${some(thin.map((l) => l.name))}.`, so: whyOf(thin[0]), link: ['#/logs?show=unhealthy', 'Show them'] })
  const versions = [...new Set(cluster.nodes.filter((n) => n.version).map((n) => n.version))]
  if (versions.length > 1) found.push({ kind: 'note', what: `Nodes run different versions: ${versions.join(', ')}.`, so: 'That is well during an upgrade. Finish it within a day.' })
  const newest = Math.min(...cluster.nodes.map((n) => n.newestLevel || Infinity))
  if (newest !== Infinity && newest > cluster.level && versions.length === 1 && !down.length) found.push({ kind: 'note', what: `The feature level can be raised from ${cluster.level} to ${newest}.`, so: 'All nodes understand it. There is no way back to an older release then.', command: 'strandline cluster finalize' })
  for (const n of cluster.nodes.filter((n) => n.drained && n.alive)) {
    found.push(n.waits.length
      ? { kind: 'warn', what: `Node ${n.name} is drained, and must not be stopped yet:`, so: `${some(n.waits, 2)}.` }
      : { kind: 'note', what: `Node ${n.name} is drained: it leads nothing and may be stopped.`, so: 'When it is back, let it lead again.', command: `strandline cluster undrain ${quote(n.name)}` })
  }
  const order = { bad: 0, warn: 1, note: 2 }
  return found.sort((a, b) => order[a.kind] - order[b.kind])
}

// whyOf returns why a log is not healthy, in words.
export function whyOf(log) {
  if (!log.leader) return 'It has no leader.'
  if (log.unmet?.length) return `Its rule is not kept: ${log.unmet[0]}.`
  const r = (log.replicas || []).find((r) => r.problem || ['REPLICA_ROLE_LEARNER', 'REPLICA_ROLE_MISSING', 'REPLICA_ROLE_LEAVING'].includes(r.role) || !['REPLICA_STATE_LEADER', 'REPLICA_STATE_REPLICATING'].includes(r.state))
  if (!r) return log.problem ? `${log.problem}.` : 'A replica does not keep up.'
  if (r.role === 'REPLICA_ROLE_MISSING') return 'It wants one more replica, and there is no node for it.'
  if (r.role === 'REPLICA_ROLE_LEARNER') return `The replica on ${r.node} catches up and does not vote yet.`
  if (r.role === 'REPLICA_ROLE_LEAVING') return `The replica on ${r.node} is on its way out.`
  return `The replica on ${r.node} is ${replicaWord(r)}${r.problem ? `: ${r.problem}` : ''}.`
}

function Nodes({ logs }) {
  const cluster = useCluster()
  const leads = {}
  const holds = {}
  for (const l of logs) {
    leads[l.leader] = (leads[l.leader] || 0) + 1
    for (const r of l.replicas || []) holds[r.node] = (holds[r.node] || 0) + 1
  }
  return html`<table class="stack"><thead><tr><th>Node</th><th>Health</th><th>Place</th><th class="num">Leads</th><th class="num">Replicas</th><th>Disk free</th><th>Memory</th><th>Version</th><th class="wide">Address</th><th><span class="quiet"></span></th></tr></thead>
    <tbody>${cluster.nodes.map((n) => html`<tr key=${n.name}>
      <td data-label="Node">${consoleOf(n.name) && n.alive ? html`<a href=${consoleOf(n.name)} title=${`The console of ${n.name}`}><b>${n.name}</b></a>` : html`<b>${n.name}</b>`}</td>
      <td data-label="Health">${!n.alive ? html`<${State} kind="bad">does not answer<//>` : n.drained ? html`<${State} kind=${n.waits.length ? 'warn' : 'quiet'}>${n.waits.length ? 'drained, wait' : 'drained, may be stopped'}<//>` : html`<${State} kind="good">well<//>`}</td>
      <td data-label="Place">${n.labels.length ? n.labels.join(' ') : html`<span class="quiet">–</span>`}</td>
      <td data-label="Leads" class="num">${count(leads[n.name] || 0)}</td>
      <td data-label="Replicas" class="num">${count(holds[n.name] || 0)}</td>
      <td data-label="Disk free">${n.alive ? html`<span><${Meter} used=${int(n.bytesTotal) - int(n.bytesFree)} total=${int(n.bytesTotal)} label=${`Disk of ${n.name}, used`} /> ${bytes(int(n.bytesFree))}</span>` : html`<span class="quiet">unknown</span>`}</td>
      <td data-label="Memory">${n.alive ? html`<span><${Meter} used=${int(n.memoryUsed)} total=${int(n.memoryTotal)} label=${`Memory of ${n.name}, used`} /> ${bytes(int(n.memoryUsed))}</span>` : html`<span class="quiet">unknown</span>`}</td>
      <td data-label="Version">${n.version || html`<span class="quiet">–</span>`}</td>
      <td data-label="Address" class="wide mono">${n.address}</td>
      <td class="act">${may('administer') && html`<${Drain} node=${n} leads=${leads[n.name] || 0} nodes=${cluster.nodes} />`}</td>
    </tr>`)}</tbody></table>`
}

function Drain({ node, leads, nodes }) {
  const others = nodes.filter((n) => n.name !== node.name && n.alive && !n.drained).length
  if (node.drained) {
    return html`<${Action} label="Undrain …" title=${`Let ${node.name} lead again`} command=${`strandline cluster undrain ${quote(node.name)}`}
      effect=${html`<p>Node ${node.name} may lead logs again. Leaders that have a home there, and those that spread evenly, come back to it.</p>`}
      run=${async () => { await call('ClusterService/DrainNode', { name: node.name, undo: true }) }} />`
  }
  return html`<${Action} label="Drain …" title=${`Drain ${node.name}`} command=${`strandline cluster drain ${quote(node.name)}`}
    effect=${html`<p>Node ${node.name} hands over ${plural(leads, 'log')} that it leads and is given none, so that it can be stopped. Clients of these logs wait for less than a second. Its replicas stay and keep voting.</p>
      ${others === 0 && html`<p class="warn">No other node answers that could lead.</p>`}`}
    run=${async () => { await call('ClusterService/DrainNode', { name: node.name }); return 'Decided. The list says when it may be stopped.' }} />`
}

const Rebalance = () => html`<${Action} label="Spread replicas …" title="Spread replicas evenly" command="strandline cluster rebalance"
  effect=${html`<p>Replicas move until each node that answers holds about as many as the others. That copies data between nodes, one log after the other, in the background; every log keeps its majority.</p>`}
  run=${async () => { const { left } = await call('ClusterService/Rebalance'); return left ? `${plural(left, 'replica')} to move.` : 'They are spread evenly: nothing moves.' }} />`

function Finalize() {
  const cluster = useCluster()
  const newest = Math.min(...cluster.nodes.map((n) => n.newestLevel || 0))
  if (newest <= cluster.level) return null
  return html`<${Action} label="Raise the level …" title=${`Raise the feature level from ${cluster.level} to ${newest}`} command="strandline cluster finalize" confirm=${String(newest)} danger
    effect=${html`<p>Nodes begin to write what releases before level ${newest} do not understand. There is no way back: no node can run an older release after this.</p>`}
    run=${async () => { const { level } = await call('ClusterService/FinalizeCluster'); return `The feature level is ${level}.` }} />`
}

const stageNames = ['queue', 'batch', 'write', 'sync', 'replicas']

// quantile estimates one of what a histogram counted between two samples.
function quantile(before, now, q) {
  const by = (m) => new Map(m.list('strandline_append_seconds_bucket').map((s) => [s.labels.le === '+Inf' ? Infinity : Number(s.labels.le), s.value]))
  const old = by(before)
  const edges = [...by(now)].map(([edge, n]) => [edge, n - (old.get(edge) || 0)]).sort((a, b) => a[0] - b[0])
  const total = edges.at(-1)?.[1]
  if (!total) return null
  let low = 0
  let below = 0
  for (const [edge, n] of edges) {
    if (n >= q * total) return edge === Infinity ? low : low + (edge - low) * ((q * total - below) / Math.max(1, n - below))
    low = edge
    below = n
  }
  return low
}

function ThisNode() {
  const [data, setData] = useState({ points: [], failure: undefined })
  useEvery(2, async (signal) => {
    try {
      const now = { at: Date.now() / 1000, m: await metrics('/metrics', signal) }
      setData(({ points }) => ({ points: [...points, now].slice(-150) }))
    } catch (failure) {
      if (!signal.aborted) setData(({ points }) => ({ points, failure: failure.status === 0 ? undefined : failure }))
    }
  }, [])
  const { points } = data
  const xs = points.slice(1).map((p) => p.at)
  const between = (f) => points.slice(1).map((p, i) => f(points[i], p, p.at - points[i].at))
  const per = (name) => between((a, b, s) => Math.max(0, (b.m.sum(name) ?? 0) - (a.m.sum(name) ?? 0)) / s)
  const stages = stageNames.map((stage) => between((a, b) => {
    const n = (b.m.sum('strandline_append_stage_seconds_count', { stage }) ?? 0) - (a.m.sum('strandline_append_stage_seconds_count', { stage }) ?? 0)
    return n > 0 ? ((b.m.sum('strandline_append_stage_seconds_sum', { stage }) ?? 0) - (a.m.sum('strandline_append_stage_seconds_sum', { stage }) ?? 0)) / n : null
  }))
  if (data.failure?.denied) return null
  return html`<section><div class="section-head"><h2>This node, since you look</h2><span class="aside quiet"><span>from <a href="/metrics">/metrics</a>, every 2 s</span></span></div>
    <${Wrong} failure=${data.failure} />
    <div class="charts">
      <${Chart} title="Records appended" data=${[xs, per('strandline_appended_records_total')]} series=${['records']} value=${(v) => rate(v)} />
      <${Chart} title="Time of an append" data=${[xs, between((a, b) => quantile(a.m, b.m, 0.5)), between((a, b) => quantile(a.m, b.m, 0.99))]} series=${['p50', 'p99']} value=${seconds} />
      <${Chart} title="Where the time goes" data=${[xs, ...stages]} series=${stageNames} value=${seconds} />
    </div></section>`
}

function Connections() {
  const [got, setGot] = useState({})
  const [shown, setShown] = useState(20)
  useEvery(5, async (signal) => {
    try {
      setGot({ answer: await call('ClusterService/ListConnections', {}, signal) })
    } catch (failure) {
      if (!signal.aborted) setGot((g) => ({ ...g, failure }))
    }
  }, [], true)
  const all = got.answer?.connections || []
  const principals = [...new Set(all.map((c) => c.principal).filter(Boolean))]
  useEffect(() => setShown(20), [])
  return html`<section><div class="section-head"><h2>Connections${got.answer ? ` with ${got.answer.node}` : ''}</h2><span class="aside quiet">${got.answer ? plural(all.length, 'client') : ''}</span></div>
    <${Wrong} failure=${got.failure?.status ? got.failure : undefined} />
    ${got.answer && !all.length && html`<${Empty} title="No client is connected with this node."><p>Clients take any node first, and stay with the one that leads their log. Try one:</p><${Command} text="echo hello | strandline append orders" /><//>`}
    ${all.length > 0 && html`<table class="stack"><thead><tr><th>Principal</th><th>Port</th><th>Address</th><th>Since</th><th></th></tr></thead><tbody>
      ${all.slice(0, shown).map((c) => html`<tr key=${c.id}><td data-label="Principal">${c.principal || html`<span class="quiet">nobody known</span>`}</td><td data-label="Port">${c.port}</td><td data-label="Address" class="mono">${c.address}</td><td data-label="Since"><${Time} at=${c.since} /></td>
        <td class="act"><${Action} label="Close …" title="Close a connection" danger command=${`strandline connection close ${c.id}`}
          effect=${html`<p>The connection of ${c.principal || 'a client'} at <code>${c.address}</code> ends. Its client connects again by itself, unless its rights are gone.</p>`}
          run=${async () => { const { closed } = await call('ClusterService/CloseConnections', { id: c.id }); return `${plural(closed, 'connection')} closed.` }} /></td></tr>`)}
    </tbody></table>`}
    ${all.length > shown && html`<p><button type="button" class="small" onClick=${() => setShown(shown + 100)}>Show more of ${count(all.length)}</button></p>`}
    ${principals.length > 1 && html`<p class="quiet">To close all those of one principal: <code>strandline connection close --principal ${principals[0]}</code> <${Copy} text=${`strandline connection close --principal ${principals[0]}`} /></p>`}
  </section>`
}
