// One log: live charts, its replicas, sessions, holds, settings and digest.

import { html, useRef, useState } from './vendor/preact.js'
import { call, metrics, stream } from './api.js'
import { bytes, count, duration, int, parseBytes, parseSpan, plural, quote, rate, seconds, settingBytes, settingSpan, span } from './format.js'
import { Action, Chart, Command, Copy, Elsewhere, Empty, Field, Opener, Sheet, State, Time, useEvery, Wrong } from './parts.js'
import { may, mayLog, replicaWord, roleWord, useCluster } from './state.js'
import { whyOf } from './cluster.js'

// at is the address of a page of a log.
const at = (name, page) => `#/logs/${encodeURIComponent(name)}${page ? '/' + page : ''}`

export function Log({ name }) {
  const cluster = useCluster()
  const row = cluster.logs.get(name)
  const [info, setInfo] = useState()
  const [failure, setFailure] = useState()
  const [points, setPoints] = useState([])
  // The answer is pushed once a second while something changes; between, the end is what it was.
  useEvery(1, async (signal) => {
    const last = { sample: undefined }
    const timer = setInterval(() => last.info && sample(last.info), 1000)
    function sample(now) {
      const point = { at: Date.now() / 1000, end: int(now.endOffset) }
      setPoints((all) => [...all, point].slice(-300))
    }
    try {
      await stream('LogService/WatchInfo', { log: name, minInterval: '1s' }, ({ info: now }) => {
        if (!last.info) sample(now)
        last.info = now
        setInfo((before) => ({ ...now, holds: before?.holds || [] }))
        setFailure(undefined)
      }, signal)
    } catch (e) {
      if (!signal.aborted) setFailure(e)
      throw e
    } finally {
      clearInterval(timer)
    }
  }, [name])
  const [holds, setHolds] = useState()
  const [again, setAgain] = useState(0)
  const refresh = () => setAgain((n) => n + 1)
  useEvery(5, async (signal) => {
    const { info: now } = await call('LogService/GetInfo', { log: name, allowStale: true }, signal)
    setHolds(now.holds)
    setInfo((before) => ({ ...now, ...(before && int(before.endOffset) > int(now.endOffset) ? { endOffset: before.endOffset } : {}) }))
  }, [name, again], true)
  if (!info) {
    return html`<span class="crumb"><a href="#/logs">Logs</a></span><h1>${name}</h1>
      ${failure?.reason === 'LOG_NOT_FOUND' ? html`<${Empty} title="There is no such log."><p>It was deleted, or never created. Names count capitals.</p><//>` : html`<${Wrong} failure=${failure?.status ? failure : undefined} /><p class="quiet loading">${failure ? '' : 'Asking for the log …'}</p>`}`
  }
  const [start, end] = [int(info.startOffset), int(info.endOffset)]
  const replicas = row?.replicas?.length ? row.replicas : undefined
  const leader = row?.leader || info.replicas.find((r) => r.leader)?.node
  const gone = failure?.reason === 'LOG_NOT_FOUND'
  return html`
    <span class="crumb"><a href="#/logs">Logs</a></span>
    <div class="title"><h1>${name}</h1>
      ${gone ? html`<${State} kind="bad">deleted<//>` : row?.healthy === false ? html`<${State} kind=${leader ? 'warn' : 'bad'}>${whyOf(row)}<//>` : row?.healthy ? html`<${State} kind="good">healthy<//>` : ''}
      <span class="aside">${mayLog('read', name) && html`<a href=${at(name, 'records')}>Records</a>`}
        ${mayLog('trim', name) && html`<${Opener} label="Trim …" danger sheet=${Trim} name=${name} info=${info} holds=${holds || []} after=${refresh} />`}
        ${mayLog('configure', name) && html`<${Opener} label="Settings …" sheet=${Settings} name=${name} info=${info} after=${refresh} />`}
        ${mayLog('configure', name) && !info.sealed && html`<${Opener} label="Seal …" danger sheet=${Seal} name=${name} info=${info} after=${refresh} />`}
        ${mayLog('delete', name) && html`<${Opener} label="Delete …" danger sheet=${Delete} name=${name} info=${info} />`}</span></div>
    <${Wrong} failure=${failure?.status && !gone ? failure : undefined} />
    <dl class="facts">
      <div><dt>Records</dt><dd>${count(end - start)}</dd></div>
      <div><dt>Offsets</dt><dd>${count(start)} <small>to</small> ${count(end)}</dd></div>
      <div><dt>Size on this node</dt><dd>${info.unknown ? '–' : bytes(int(info.bytesUsed))}</dd></div>
      <div><dt>Leader</dt><dd>${leader || 'none'} <small>term ${count(int(info.leaderTerm))}</small></dd></div>
      <div><dt>Keeps</dt><dd>${keeps(info.config)}</dd></div>
      <div><dt>Durability</dt><dd>${info.config.durability === 'DURABILITY_MEMORY' ? 'memory' : 'disk'}</dd></div>
      ${info.sealed && html`<div><dt>Sealed</dt><dd>takes no more appends</dd></div>`}
      <div><dt>Created</dt><dd><${Time} at=${info.created} /></dd></div>
    </dl>
    ${info.problem && html`<div class="wrong"><p>${info.problem}</p></div>`}
    <${Charts} name=${name} points=${points} leads=${leader} />
    <div class="columns">
      <section><div class="section-head"><h2>Replicas</h2></div><${Replicas} name=${name} replicas=${replicas} info=${info} leader=${leader} rule=${row?.rule || info.config.rule} unmet=${row?.unmet || []} /></section>
      <section><div class="section-head"><h2>Holds</h2><span class="aside">${mayLog('trim', name) && html`<${Opener} label="Set a hold …" sheet=${SetHold} name=${name} info=${info} after=${refresh} />`}</span></div><${Holds} name=${name} logId=${info.id} holds=${holds} after=${refresh} /></section>
      <section><div class="section-head"><h2>Sessions</h2><span class="aside quiet">${count(info.openSessions)} open</span></div><${Sessions} name=${name} info=${info} /></section>
      ${mayLog('read', name) && html`<section><div class="section-head"><h2>Digest</h2></div><${Digest} name=${name} info=${info} replicas=${replicas} /></section>`}
    </div>`
}

const keeps = (config) => [duration(config.retention) && span(duration(config.retention)), int(config.retentionBytes) && bytes(int(config.retentionBytes))].filter(Boolean).join(', ') || 'all'

function Charts({ name, points }) {
  const [samples, setSamples] = useState([])
  const [failure, setFailure] = useState()
  const denied = useRef(false)
  useEvery(2, async (signal) => {
    if (denied.current || !may('observe')) return
    try {
      const m = await metrics(`/metrics/logs?name=${encodeURIComponent(name)}`, signal)
      setSamples((all) => [...all, { at: Date.now() / 1000, m }].slice(-150))
      setFailure(undefined)
    } catch (e) {
      if (signal.aborted) return
      denied.current = e.denied
      setFailure(e)
    }
  }, [name])
  // An end comes once a second; a rate is that of the last two seconds, so that it does not jump.
  const rates = points.slice(2).map((p, i) => Math.max(0, (p.end - points[i].end) / Math.max(0.5, p.at - points[i].at)))
  const between = (f) => samples.slice(1).map((b, i) => f(samples[i], b, b.at - samples[i].at))
  const delta = (a, b, metric) => Math.max(0, (b.m.sum(metric) ?? 0) - (a.m.sum(metric) ?? 0))
  const xs = samples.slice(1).map((s) => s.at)
  const here = !failure && may('observe')
  return html`<section class="charts">
    <${Chart} title="Records appended" data=${[points.slice(2).map((p) => p.at), rates]} series=${['records']} value=${(v) => rate(v)} />
    ${here && html`<${Chart} title="Bytes written on this node" data=${[xs, between((a, b, s) => delta(a, b, 'strandline_log_written_bytes_total') / s)]} series=${['bytes']} value=${(v) => rate(v, 'B')} />
    <${Chart} title="Time of a group write on this node" data=${[xs, between((a, b) => { const n = delta(a, b, 'strandline_log_writes_total'); return n ? delta(a, b, 'strandline_log_write_seconds_total') / n : null })]} series=${['mean']} value=${seconds} />`}
    ${!here && html`<p class="quiet">${failure?.status === 404 ? 'Bytes and times of writes are known to the nodes that hold the log: this one does not.' : 'Bytes and times of writes come from /metrics, which needs the right to observe the cluster.'}</p>`}
  </section>`
}

function Replicas({ name, replicas, info, leader, rule, unmet }) {
  const cluster = useCluster()
  if (!replicas) return html`<table><thead><tr><th>Node</th><th>Address</th></tr></thead><tbody>${info.replicas.map((r) => html`<tr><td><b>${r.node}</b>${r.leader ? ' leads' : ''}</td><td class="mono">${r.address}</td></tr>`)}</tbody></table><p class="quiet">State and lag need the right to observe the cluster.</p>`
  const labels = new Map(cluster.nodes.map((n) => [n.name, n.labels.join(' ')]))
  return html`<table class="stack"><thead><tr><th>Node</th><th>State</th><th class="num">Lag</th><th>Role</th><th>Place</th><th></th></tr></thead><tbody>
    ${replicas.map((r) => html`<tr key=${r.replica}>
      <td data-label="Node"><b>${r.node || '–'}</b></td>
      <td data-label="State"><${State} kind=${r.state === 'REPLICA_STATE_LEADER' || r.state === 'REPLICA_STATE_REPLICATING' ? 'good' : r.problem || r.state === 'REPLICA_STATE_LOST' || r.state === 'REPLICA_STATE_UNREACHABLE' ? 'bad' : 'warn'} title=${r.problem}>${r.node === leader ? 'leads' : replicaWord(r)}<//>${r.problem && html`<br /><span class="bad">${r.problem}</span>`}</td>
      <td data-label="Lag" class="num">${r.state === 'REPLICA_STATE_UNREACHABLE' || !leader ? html`<span class="quiet">unknown</span>` : count(int(r.lag))}</td>
      <td data-label="Role">${roleWord(r)}</td>
      <td data-label="Place">${labels.get(r.node) || html`<span class="quiet">–</span>`}</td>
      <td class="act">${may('administer') && r.role === 'REPLICA_ROLE_VOTER' && r.node !== leader && html`<${Action} label="Let lead …" title=${`Let ${r.node} lead ${name}`} command=${`strandline cluster transfer-leader ${quote(name)} --to ${quote(r.node)}`}
        effect=${html`<p>${leader || 'The leader'} hands ${name} over to ${r.node}, which has ${int(r.lag) ? plural(int(r.lag), 'record') + ' less' : 'all records'}. Appends wait for some milliseconds; clients follow by themselves.</p>`}
        run=${async () => { await call('ClusterService/TransferLeader', { log: name, to: r.node }); return `${r.node} leads.` }} />`}</td></tr>`)}
    </tbody></table>
    ${unmet.map((u) => html`<p class="warn">The rule is not kept: ${u}.</p>`)}
    ${rule && html`<p class="quiet">Rule: ${ruleWords(rule)}</p>`}`
}

function ruleWords(rule) {
  return [rule.spread && `voters spread by ${rule.spread}`, rule.votersIn?.length && `voters in ${rule.votersIn.join(', ')}`, rule.votersNotIn?.length && `no voter in ${rule.votersNotIn.join(', ')}`,
    rule.leaderHomes?.length && `leader at home in ${rule.leaderHomes.join(', then ')}`, rule.readReplicas?.length && `read replicas ${rule.readReplicas.map((r) => `${r.label}:${r.count}`).join(', ')}`].filter(Boolean).join('; ') + '.'
}

function Holds({ name, logId, holds, after }) {
  if (!holds) return html`<p class="quiet">Asking …</p>`
  if (!holds.length) return html`<p class="quiet">Nothing is held. A hold keeps records from an offset on, whatever retention says, until who set it is done with them: a backup, for example.</p>`
  return html`<table class="stack"><thead><tr><th>Hold</th><th class="num">From</th><th class="num">Keeps</th><th>Ends</th><th>Owner</th><th></th></tr></thead><tbody>${holds.map((h) => html`<tr key=${h.name}>
    <td data-label="Hold" class="break"><b>${h.name}</b></td><td data-label="From" class="num">${count(int(h.offset))}</td><td data-label="Keeps" class="num">${bytes(int(h.keptBytes))}</td>
    <td data-label="Ends">${[h.lease && `${span(duration(h.lease))} unrenewed`, int(h.maxBytes) && `at ${bytes(int(h.maxBytes))}`, h.maxAge && `at ${span(duration(h.maxAge))} old`].filter(Boolean).join(', ') || 'when released'}</td>
    <td data-label="Owner" class="break">${h.owner || h.principal || html`<span class="quiet">–</span>`}</td>
    <td class="act">${mayLog('trim', name) && html`<${Opener} label="Release …" danger sheet=${Release} name=${name} id=${logId} hold=${h} after=${after} />`}</td></tr>`)}</tbody></table>`
}

// A log of the same name may come while a dialog is open: each acts on the one for which it was opened, by its id.

function Release({ name, id, hold: h, ...rest }) {
  const [logId] = useState(id)
  return html`<${Sheet} ...${rest} title=${`Release the hold ${h.name}`} command=${`strandline log hold release ${quote(name)} ${quote(h.name)}`}
    effect=${html`<p>Trims and retention may then remove records from ${count(int(h.offset))} on: ${bytes(int(h.keptBytes))}, unless another hold keeps them.${h.owner ? ` Ask ${h.owner} first.` : ''}</p>`}
    run=${async () => { await call('LogService/ReleaseHold', { log: name, name: h.name, logId }) }} />`
}

function SetHold({ name, info, ...rest }) {
  const [logId] = useState(info.id)
  const [hold, setHold] = useState('')
  const [offset, setOffset] = useState(info.startOffset)
  const [owner, setOwner] = useState('')
  const [lease, setLease] = useState('12h')
  const s = parseSpan(lease)
  const n = Number(offset)
  const wrong = !/^\d+$/.test(offset) || n < int(info.startOffset) || n > int(info.endOffset) ? `between ${info.startOffset} and ${info.endOffset}` : ''
  return html`<${Sheet} ...${rest} title=${`Set a hold in ${name}`} ready=${hold && !wrong && !Number.isNaN(s)}
    command=${`strandline log hold set ${quote(name)} ${quote(hold || 'HOLD')} --from ${offset}${owner ? ` --owner ${quote(owner)}` : ''}${s ? ` --lease ${lease}` : ''}`}
    fields=${html`<div class="pair"><${Field} label="Name" value=${hold} set=${setHold} data-first /><${Field} label="From offset" value=${offset} set=${setOffset} inputmode="numeric" wrong=${wrong} />
      <${Field} label="Owner, for people" value=${owner} set=${setOwner} /><${Field} label="Lease" value=${lease} set=${setLease} hint="empty: until released" wrong=${Number.isNaN(s) ? 'such as 12h' : ''} /></div>`}
    effect=${html`<p>Keeps ${plural(Math.max(0, int(info.endOffset) - n), 'record')} and all that follow from trims and retention, ${s ? `for ${span(s)} unless it is renewed` : 'until it is released'}. The log grows meanwhile.</p>`}
    run=${async () => { await call('LogService/SetHold', { log: name, logId, hold: { name: hold, offset, owner, lease: s ? `${s}s` : undefined } }) }} />`
}

function Trim({ name, info, holds, ...rest }) {
  const [logId] = useState(info.id)
  const [start, end] = [int(info.startOffset), int(info.endOffset)]
  const [before, setBefore] = useState('')
  const n = /^\d+$/.test(before) ? Number(before) : NaN
  const wrong = before && (Number.isNaN(n) || n <= start || n > end) ? `above ${count(start)}, at most ${count(end)}` : ''
  const stops = holds.filter((h) => int(h.offset) < n)
  return html`<${Sheet} ...${rest} title=${`Trim ${name}`} ready=${before && !wrong} confirm=${before && !wrong ? name : undefined}
    command=${`strandline log trim ${quote(name)} --before ${before || 'OFFSET'}`}
    fields=${html`<${Field} label="Remove every record before offset" value=${before} set=${setBefore} inputmode="numeric" hint=${`the log has ${count(start)} to ${count(end)}`} wrong=${wrong} data-first />`}
    effect=${html`<p>${before && !wrong ? html`<b>Removes ${plural(n - start, 'record')}</b>, ${count(start)} to ${count(n - 1)}, on all replicas, for ever.` : 'Removes records for ever, on all replicas.'} Readers behind it get OFFSET_TRIMMED.</p>
      ${stops.length > 0 && html`<p class="warn">The hold ${stops[0].name} keeps records from ${count(int(stops[0].offset))} on: the trim is refused.</p>`}`}
    run=${async () => { const r = await call('LogService/Trim', { log: name, before, logId }); return `The log starts at ${count(int(r.startOffset))}.` }} />`
}

function Settings({ name, info, ...rest }) {
  const [{ id: logId, config }] = useState(info) // with its revision, so that what others change meanwhile is not undone
  const [age, setAge] = useState(config.retention ? settingSpan(duration(config.retention)) : '')
  const [size, setSize] = useState(int(config.retentionBytes) ? settingBytes(int(config.retentionBytes)) : '')
  const [replicas, setReplicas] = useState(String(config.replicas || ''))
  const [fenced, setFenced] = useState(config.fenced)
  const [s, most] = [parseSpan(age), parseBytes(size)]
  const wrong = { age: Number.isNaN(s) ? 'such as 7d, 12h or 30m' : '', size: Number.isNaN(most) ? 'such as 10GiB' : '', replicas: /^([1-9]\d?)?$/.test(replicas) ? '' : 'a number of nodes' }
  const was = { s: duration(config.retention) || 0, most: int(config.retentionBytes) || 0, replicas: config.replicas || 0, fenced: config.fenced }
  const now = { s, most, replicas: Number(replicas) || 0, fenced }
  const changes = [
    now.s !== was.s && (now.s ? `records older than ${span(now.s)} are trimmed` : 'records are kept however old they are'),
    now.most !== was.most && (now.most ? `the oldest records beyond ${bytes(now.most)} are trimmed` : 'the log may grow without a limit'),
    now.replicas !== was.replicas && `${now.replicas || 'the usual number of'} nodes are to hold it; replicas move in the background`,
    now.fenced !== was.fenced && (now.fenced ? 'appends without a writer term are refused once one was acquired' : 'appends without a writer term are taken'),
  ].filter(Boolean)
  const command = [`strandline log configure ${quote(name)}`, now.s !== was.s && `--retention ${s ? age.trim() : '0s'}`, now.most !== was.most && `--retention-bytes ${most ? size.trim() : '0'}`, now.replicas !== was.replicas && `--replicas ${now.replicas}`, now.fenced !== was.fenced && (fenced ? '--fenced' : '--fenced=false')].filter(Boolean).join(' ')
  const shorter = (now.s && (!was.s || now.s < was.s)) || (now.most && (!was.most || now.most < was.most))
  return html`<${Sheet} ...${rest} title=${`Settings of ${name}`} ready=${changes.length > 0 && !Object.values(wrong).some(Boolean)} command=${changes.length ? command : undefined}
    fields=${html`<div class="pair"><${Field} label="Keep for" value=${age} set=${setAge} hint="empty: for ever" wrong=${wrong.age} data-first /><${Field} label="Keep at most" value=${size} set=${setSize} hint="empty: no limit" wrong=${wrong.size} />
      <${Field} label="Replicas" value=${replicas} set=${setReplicas} inputmode="numeric" wrong=${wrong.replicas} /><label class="field"><span>Writers</span><select value=${fenced ? 'fenced' : 'all'} onChange=${(e) => setFenced(e.target.value === 'fenced')}><option value="all">all who may append</option><option value="fenced">only with a writer term</option></select></label></div>`}
    effect=${changes.length ? html`<p>From then on:</p><ul>${changes.map((c) => html`<li>${c}</li>`)}</ul>${shorter ? html`<p class="warn">Records beyond it are removed for ever within a minute or so, unless a hold keeps them.</p>` : ''}` : html`<p class="quiet">Nothing is changed yet. The rule of placement has a command: <code>strandline log configure ${name} --spread dc</code></p>`}
    run=${async () => {
      await call('CatalogService/ConfigureLog', { name, logId, config: { ...config, rule: undefined, retention: s ? `${s}s` : undefined, retentionBytes: String(most), replicas: now.replicas, fenced } })
    }} />`
}

function Seal({ name, info, ...rest }) {
  const [logId] = useState(info.id)
  return html`<${Sheet} ...${rest} title=${`Seal ${name}`} confirm=${name} command=${`strandline log seal ${quote(name)}`}
    effect=${html`<p>Ends the log for good, at ${count(int(info.endOffset))} or after the appends that are under way: it takes no more appends and opens no session. Only cluster recover undoes that, if it continues the log from a replica that lacks the seal. Reading, trimming and deleting go on.</p>`}
    run=${async () => { const r = await call('LogService/Seal', { log: name, logId }); return `Sealed: it ends at ${count(int(r.endOffset))}.` }} />`
}

function Delete({ name, info, ...rest }) {
  const [logId] = useState(info.id)
  return html`<${Sheet} ...${rest} title=${`Delete ${name}`} confirm=${name} command=${`strandline log delete ${quote(name)}`}
    effect=${html`<p><b>Deletes the log with all its ${plural(int(info.endOffset) - int(info.startOffset), 'record')}</b>, on all nodes, for ever. Its readers and writers get LOG_NOT_FOUND. A log of that name that is created later is another one.</p>`}
    run=${async () => { await call('CatalogService/DeleteLog', { name, logId }); return html`<p>Deleted. <a href="#/logs">All logs</a></p>` }} />`
}

function Sessions({ name, info }) {
  const [got, setGot] = useState({})
  const [after, setAfter] = useState('0')
  const [again, setAgain] = useState(0)
  const admin = may('administer')
  useEvery(5, async (signal) => {
    if (!admin || !info.openSessions) return
    try {
      setGot({ answer: await call('ClusterService/ListSessions', { log: name, after }, signal) })
    } catch (failure) {
      if (!signal.aborted) setGot((g) => ({ ...g, failure }))
    }
  }, [name, after, again, admin, !!info.openSessions], true)
  if (!info.openSessions) return html`<p class="quiet">No session is open. With one, a client appends each record at most once and in order, also when it sends again.</p>`
  if (!admin) return html`<p class="quiet">Who opened them is shown to those who may administer.</p>`
  if (got.failure?.reason === 'NOT_LEADER') return html`<${Elsewhere} address=${got.failure.metadata.leader} /><${Command} text=${`strandline session list ${quote(name)}`} />`
  const all = got.answer?.sessions || []
  return html`<${Wrong} failure=${got.failure?.status ? got.failure : undefined} />
    <table class="stack"><thead><tr><th>Session</th><th>Principal</th><th class="num">Next</th><th>Silent</th><th class="num">Memory</th><th></th></tr></thead><tbody>${all.slice(0, 50).map((s) => html`<tr key=${s.sessionId}>
      <td data-label="Session" class="mono">${s.sessionId}</td><td data-label="Principal">${s.principal || html`<span class="quiet">${s.producer ? 'a Kafka producer' : '–'}</span>`}</td>
      <td data-label="Next" class="num" title="epoch and sequence">${s.epoch}:${s.nextSequence}</td><td data-label="Silent">${span(duration(s.silent))} <span class="quiet">of ${span(duration(s.lease))}</span></td><td data-label="Memory" class="num">${bytes(int(s.memoryBytes))}</td>
      <td class="act"><${Action} label="Close …" title=${`Close the session ${s.sessionId}`} danger after=${() => setAgain(again + 1)} command=${`strandline session close ${quote(name)} ${s.sessionId}`}
        effect=${html`<p>Its client gets SESSION_EXPIRED for what it appends next, and can no longer learn the outcome of appends whose answers it lost.</p>`}
        run=${async () => { await call('SessionService/CloseSession', { log: name, sessionId: s.sessionId }) }} /></td></tr>`)}</tbody></table>
    ${all.length > 50 && html`<p class="quiet">The first 50 of ${got.answer.more ? 'more than ' : ''}${count(all.length)}. <button type="button" class="small" onClick=${() => setAfter(all[49].sessionId)}>Next</button></p>`}`
}

const toHex = (base64) => Array.from(atob(base64), (c) => c.charCodeAt(0).toString(16).padStart(2, '0')).join('')

function Digest({ name, info, replicas }) {
  const [offset, setOffset] = useState('')
  const [got, setGot] = useState()
  const [failure, setFailure] = useState()
  const [busy, setBusy] = useState(false)
  const [other, setOther] = useState('')
  async function compute(e) {
    e.preventDefault()
    setBusy(true)
    setFailure(undefined)
    try {
      setGot(await call('LogService/Digest', { log: name, logId: info.id, at: offset || undefined }))
    } catch (e) {
      setFailure(e)
    }
    setBusy(false)
  }
  const digest = got && toHex(got.digest)
  const typed = other.trim().toLowerCase()
  const nodes = (replicas || []).filter((r) => r.node && r.role === 'REPLICA_ROLE_VOTER').map((r) => r.node)
  return html`<p class="quiet">One hash of all records below an offset. It is the same on every replica, and another one if a bit of any record is.</p>
    <form class="filters" onSubmit=${compute}><${Field} label="Below offset" value=${offset} set=${setOffset} placeholder="the end" inputmode="numeric" /><button type="submit" class="small" disabled=${busy}>${busy ? 'Computing …' : 'Compute on this node'}</button></form>
    <${Wrong} failure=${failure} />
    ${got && html`<div class="command"><code>${digest}</code><${Copy} text=${digest} /></div>
      <p class="quiet">Records ${count(int(got.from))} to ${count(int(got.covered))}, in ${plural(int(got.batches), 'batch', 'batches')}.</p>
      <${Field} label="Compare with another node's, or one that you kept" value=${other} set=${setOther} placeholder="64 digits of hex, of the same offset" />
      ${typed && html`<p role="status">${typed === digest ? html`<${State} kind="good">The same: not one bit differs.<//>` : typed.length === 64 ? html`<${State} kind="bad">Another one: of another offset, or the records differ. The command below finds the first.<//>` : html`<span class="quiet">${typed.length} of 64 digits</span>`}</p>`}`}
    ${nodes.length > 1 && html`<p class="label">To compare replicas on nodes</p><${Command} text=${`strandline log diff ${quote(name)}@${nodes[0]} ${quote(name)}@${nodes[1]}`} />`}`
}

