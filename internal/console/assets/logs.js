// All logs: those that hurt first.

import { html, useMemo, useRef, useState } from './vendor/preact.js'
import { call } from './api.js'
import { bytes, count, parseBytes, parseSpan, plural, quote, rate } from './format.js'
import { Action, Cell, Choice, Command, Empty, Field, Rows, State } from './parts.js'
import { may, useCluster } from './state.js'
import { whyOf } from './cluster.js'

// pain orders logs: without a leader, not healthy, behind, busy, then by name.
const pain = (l) => (l.known && !l.leader ? 4 : 0) + (l.healthy === false ? 2 : 0) + (l.lag > 0 ? 1 : 0)

const sorts = {
  hurt: (a, b) => pain(b) - pain(a) || (pain(a) ? (b.lag || 0) - (a.lag || 0) : 0) || (b.rate || 0) - (a.rate || 0),
  name: () => 0,
  rate: (a, b) => (b.rate || 0) - (a.rate || 0),
  bytes: (a, b) => (b.bytes || 0) - (a.bytes || 0),
  records: (a, b) => (b.end - b.start || 0) - (a.end - a.start || 0),
  lag: (a, b) => (b.lag || 0) - (a.lag || 0),
}

export function Logs({ query }) {
  const cluster = useCluster()
  const [text, setText] = useState('')
  const [sort, setSort] = useState('hurt')
  const [show, setShow] = useState(query.get('show') || 'all')
  const frozen = useRef({ key: '', order: new Map(), at: 0 })
  const all = [...cluster.logs.values()]
  const own = all.filter((l) => !l.system)
  const items = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean)
    const kept = all.filter((l) => (show === 'system' ? l.system : !l.system) && (show !== 'unhealthy' || l.healthy === false) && words.every((w) => l.name.toLowerCase().includes(w)))
    // Rates change all the time: the order is made anew every ten seconds, so that a row stays under the pointer.
    const key = `${text}|${sort}|${show}|${kept.length}`
    if (frozen.current.key !== key || performance.now() - frozen.current.at > 10000) {
      kept.sort((a, b) => sorts[sort](a, b) || (a.name < b.name ? -1 : 1))
      frozen.current = { key, order: new Map(kept.map((l, i) => [l.name, i])), at: performance.now() }
      return kept
    }
    const { order } = frozen.current
    return kept.sort((a, b) => (order.get(a.name) ?? 1e9) - (order.get(b.name) ?? 1e9))
  }, [text, sort, show, all.length, cluster.answered])
  const unhealthy = own.filter((l) => l.healthy === false).length
  const head = (key, title, c = '') => html`<span role="columnheader" class=${c} aria-sort=${sort === key ? (key === 'name' ? 'ascending' : 'descending') : undefined}><button type="button" onClick=${() => setSort(key)}>${title}${sort === key ? ' ↓' : ''}</button></span>`
  if (cluster.loaded && !own.length && show === 'all') {
    return html`<div class="title"><h1>Logs</h1><span class="aside">${may('create') && html`<${Create} />`}</span></div>
      <${Empty} title=${cluster.me.enforced && !may('observe') ? 'There is no log that you may see.' : 'There is no log yet.'}>
        <p>A log keeps records in the order in which they were appended. Create one, append a record and read it, here or in a terminal:</p>
        <${Command} text="strandline log create orders" /><${Command} text="echo hello | strandline append orders" /><${Command} text="strandline read orders --from-start" />
      <//>`
  }
  return html`
    <div class="title"><h1>Logs</h1><span class="quiet">${plural(own.length, 'log')}${cluster.loaded ? '' : ', and more to come'}${unhealthy ? html`, <span class="bad">${count(unhealthy)} not healthy</span>` : ''}</span>
      <span class="aside">${may('create') && html`<${Create} />`}</span></div>
    <div class="bar-of-tools">
      <input class="search" type="search" data-search aria-label="Search logs by name" placeholder="Search by name  ( / )" value=${text} onInput=${(e) => setText(e.target.value)} />
      <${Choice} label="Which logs" value=${show} set=${setShow} options=${[['all', 'All'], ['unhealthy', 'Not healthy'], ['system', 'System']]} />
      <span class="quiet">${items.length !== own.length ? plural(items.length, 'match', 'matches') : ''}</span>
      <span class="spacer"></span>
      <button type="button" class="small" aria-pressed=${sort === 'hurt'} onClick=${() => setSort('hurt')}>What hurts first</button>
    </div>
    <${Rows} className="logs" label="Logs" items=${items} height=${30} keyOf=${(l) => l.name}
      head=${html`${head('name', 'Log')}<span role="columnheader">Health</span>${head('rate', 'Appends', 'num')}${head('bytes', 'Size here', 'num narrow')}${head('records', 'Records', 'num wide')}${head('lag', 'Lag', 'num wide')}<span role="columnheader" class="wide">Leader, replicas</span>`}
      draw=${(l) => html`
        <${Cell} title=${l.name}><a href=${`#/logs/${encodeURIComponent(l.name)}`}>${l.name}</a><//>
        <${Cell} title=${l.healthy === false ? whyOf(l) : ''}>${l.healthy === undefined ? html`<span class="quiet">…</span>` : l.healthy ? html`<${State} kind="good">healthy<//>` : html`<${State} kind=${l.leader ? 'warn' : 'bad'}>${l.leader ? whyOf(l).replace(/^The replica on (\S+) is/, '$1').replace(/\.$/, '') : 'no leader'}<//>`}<//>
        <${Cell} class="num">${rate(l.rate)}<//>
        <${Cell} class="num narrow" title="On the node that serves this page">${bytes(l.bytes)}<//>
        <${Cell} class="num wide" title=${`${count(l.start)} to ${count(l.end)}`}>${count(l.end - l.start)}<//>
        <${Cell} class=${`num wide ${l.lag ? 'warn' : ''}`} title="Records that the replica with the largest lag lacks">${l.known ? (l.lag ? count(l.lag) : '0') : '–'}<//>
        <${Cell} class="wide">${l.leader || '–'} <span class="quiet">${(l.replicas?.length ? l.replicas : l.nodes || []).map((r) => r.node).filter((n) => n && n !== l.leader).join(' ')}</span><//>`} />
    ${items.length === 0 && html`<${Empty} title=${show === 'unhealthy' && !text ? 'All logs are healthy.' : 'No log has such a name.'}><p class="quiet">${text ? 'The search looks for each word anywhere in the name.' : ''}</p><//>`}`
}

function Create() {
  const [name, setName] = useState('')
  const [replicas, setReplicas] = useState('')
  const [age, setAge] = useState('')
  const [size, setSize] = useState('')
  const [memory, setMemory] = useState(false)
  const [seconds, most] = [parseSpan(age), parseBytes(size)]
  const wrong = {
    name: name && !/^[A-Za-z0-9._-]{1,249}$/.test(name) ? 'letters, digits, . _ and - only' : '',
    age: Number.isNaN(seconds) ? 'such as 7d, 12h or 30m' : '', size: Number.isNaN(most) ? 'such as 10GiB' : '',
    replicas: replicas && !/^[1-9]\d?$/.test(replicas) ? 'a number of nodes' : '',
  }
  const command = ['strandline log create', quote(name || 'NAME'), replicas && `--replicas ${replicas}`, seconds ? `--retention ${age.trim()}` : '', most ? `--retention-bytes ${size.trim()}` : '', memory && '--durability memory'].filter(Boolean).join(' ')
  const keeps = [seconds && `for ${age}`, most && `up to ${size}`].filter(Boolean).join(' and ')
  return html`<${Action} label="Create a log …" title="Create a log" command=${command} ready=${name && !Object.values(wrong).some(Boolean)}
    fields=${html`<${Field} label="Name" value=${name} set=${setName} wrong=${wrong.name} data-first />
      <div class="pair"><${Field} label="Replicas" value=${replicas} set=${setReplicas} hint="three, or as many as there are nodes" wrong=${wrong.replicas} /><label class="field"><span>Durability</span><select value=${memory ? 'memory' : 'disk'} onChange=${(e) => setMemory(e.target.value === 'memory')}><option value="disk">disk</option><option value="memory">memory</option></select></label>
      <${Field} label="Keep for" value=${age} set=${setAge} hint="for ever" wrong=${wrong.age} /><${Field} label="Keep at most" value=${size} set=${setSize} hint="no limit" wrong=${wrong.size} /></div>`}
    effect=${html`<p>Creates a log that keeps its records ${keeps || 'for ever'}, in ${memory ? 'the memory of a majority of its nodes: nothing is on disk' : 'files, acknowledged when a majority has them on disk'}.</p>`}
    run=${async () => {
      const { info } = await call('CatalogService/CreateLog', { name, requestId: crypto.getRandomValues(new Uint32Array(4)).join('-'), config: {
        replicas: Number(replicas) || 0, retention: seconds ? `${seconds}s` : undefined, retentionBytes: String(most || 0), durability: memory ? 'DURABILITY_MEMORY' : 'DURABILITY_DISK',
      } })
      return html`<p>${info.problem ? `Created; ${info.problem}.` : 'Created, and ready for records.'} <a href=${`#/logs/${encodeURIComponent(name)}`}>Open ${name}</a></p>`
    }} />`
}
