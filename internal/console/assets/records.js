// The records of one log: from an offset, a time or the end on, and as they commit.

import { html, useEffect, useMemo, useRef, useState } from './vendor/preact.js'
import { append, call, stream } from './api.js'
import { asText, bytes, count, decode, duration, encode, hex, indented, int, plural, quote, seconds, toBytes, zone } from './format.js'
import { Action, Cell, Choice, Command, Copy, Empty, Field, Rows, save, Time, Wrong } from './parts.js'
import { mayLog } from './state.js'

const pageSize = 200
const most = 5000 // records that are kept while following
const shownBytes = 4096 // of a value, until a record is selected

const emptyFilter = { key: '', prefix: '', header: '', where: '' }
const isSet = (f) => Object.values(f).some((v) => v.trim())

// filterOf returns a filter of the API.
function filterOf(f) {
  if (!isSet(f)) return undefined
  const [name, ...value] = f.header.split('=')
  return {
    keys: f.key ? [encode(toBytes(f.key))] : [], keyPrefixes: f.prefix ? [encode(toBytes(f.prefix))] : [],
    headers: f.header ? [{ key: name, value: encode(toBytes(value.join('='))) }] : [], where: f.where.trim(), skipFailed: true,
  }
}

const flagsOf = (f) => [f.key && `--key ${quote(f.key)}`, f.prefix && `--key-prefix ${quote(f.prefix)}`, f.header && `--header ${quote(f.header)}`, f.where.trim() && `--where ${quote(f.where.trim())}`].filter(Boolean).join(' ')

// record is one of a frame, decoded.
function record(r, cut) {
  const value = r.value === undefined ? undefined : decode(r.value)
  return {
    offset: int(r.offset), at: r.timestamp, key: r.key === undefined ? undefined : decode(r.key), value, cut: cut && value?.length === cut,
    headers: (r.headers || []).map((h) => [h.key, h.value === undefined ? undefined : decode(h.value)]),
  }
}

const plain = (raw) => (raw === undefined ? '' : asText(raw) ?? hexShort(raw))
const hexShort = (raw) => '0x' + Array.from(raw.subarray(0, 48), (b) => b.toString(16).padStart(2, '0')).join('')

export function Records({ name, query }) {
  const [records, setRecords] = useState([])
  const [bounds, setBounds] = useState()
  const [failure, setFailure] = useState()
  const [mode, setMode] = useState('') // 'reading', 'following' or ''
  const [scanned, setScanned] = useState()
  const [next, setNext] = useState()
  const [draft, setDraft] = useState(emptyFilter)
  const [filter, setFilter] = useState(emptyFilter)
  const [filtering, setFiltering] = useState(false)
  const [view, setView] = useState(localStorage.getItem('strandline.view') || 'json')
  const [selected, setSelected] = useState()
  const [whole, setWhole] = useState({})
  const [command, setCommand] = useState('')
  const [skipped, setSkipped] = useState(0)
  const [sealed, setSealed] = useState(false)
  const control = useRef()
  const logId = useRef()

  const info = async (signal) => {
    const { info: i } = await call('LogService/GetInfo', { log: name }, signal)
    setSealed(i.sealed)
    const b = { start: int(i.startOffset), end: int(i.endOffset), id: i.id }
    logId.current = i.id
    setBounds(b)
    return b
  }

  // read shows what comes from a place on. from is a part of a ReadRequest, or { last: n }.
  async function read(from, { follow = false, f = filter, until } = {}) {
    control.current?.abort()
    const mine = control.current = new AbortController()
    setFailure(undefined)
    setRecords([])
    setSelected(undefined)
    setWhole({})
    setScanned(undefined)
    setSkipped(0)
    setMode(follow ? 'following' : 'reading')
    try {
      const b = await info(mine.signal)
      let request = from
      if (from.last !== undefined) request = { offset: String(Math.max(b.start, b.end - from.last)) }
      setNext(undefined)
      const flags = flagsOf(f)
      setCommand(`strandline read ${quote(name)} ${from.last !== undefined ? `--last ${from.last}` : request.offset !== undefined ? `--from ${request.offset}` : request.time ? `--since ${request.time}` : '--from-start'}${follow ? ' --follow' : from.last !== undefined ? '' : ` --count ${pageSize}`}${flags ? ' ' + flags : ''} -o json`)
      let waiting = []
      let drawn = 0
      const flush = () => {
        drawn = 0
        if (!waiting.length || mine.signal.aborted) return
        const more = waiting
        waiting = []
        setRecords((all) => [...all, ...more].slice(-most))
      }
      await stream('LogService/Read', {
        log: name, ...request, logId: b.id, follow, heartbeat: '1s', filter: filterOf(f), projection: { valueBytes: String(shownBytes) },
        ...(follow ? {} : { maxRecords: String(until === undefined ? pageSize : Math.max(1, Math.min(pageSize, until - int(request.offset)))), maxBytes: String(8 << 20), untilOffset: until === undefined ? undefined : String(until) }),
      }, (frame) => {
        if (mine.signal.aborted) return
        waiting.push(...frame.records.map((r) => record(r, shownBytes)))
        const reached = int(frame.nextOffset) ?? int(frame.firstOffset) + frame.recordCount
        setBounds({ start: int(frame.startOffset), end: int(frame.endOffset), id: b.id })
        setScanned(reached)
        setNext(frame.records.length && !isSet(f) ? int(frame.records.at(-1).offset) + 1 : reached)
        if (frame.failed?.length) setSkipped((n) => n + frame.failed.length)
        if (!drawn) drawn = setTimeout(flush, 60)
      }, mine.signal)
      clearTimeout(drawn)
      flush()
    } catch (e) {
      if (mine.signal.aborted) return
      setFailure(e)
    }
    if (!mine.signal.aborted) setMode('')
  }

  useEffect(() => {
    const offset = query.get('offset')
    read(offset !== null && /^\d+$/.test(offset) ? { offset } : { last: pageSize })
    return () => control.current?.abort()
  }, [])

  const stop = () => { control.current?.abort(); setMode('') }
  const first = records[0]?.offset
  const earlier = () => {
    const to = first ?? bounds.end
    read({ offset: String(Math.max(bounds.start, to - pageSize)) }, { until: to })
  }
  const apply = (f) => {
    setFilter(f)
    read(first !== undefined && !isSet(filter) ? { offset: String(first) } : { position: 'READ_POSITION_START' }, { f })
  }
  const choose = (v) => { setView(v); localStorage.setItem('strandline.view', v) }
  const chosen = selected === undefined ? undefined : whole[selected] || records.find((r) => r.offset === selected)

  async function load(r) {
    try {
      await stream('LogService/Read', { log: name, offset: String(r.offset), logId: logId.current, maxRecords: '1' }, (frame) => {
        const full = frame.records.find((x) => int(x.offset) === r.offset)
        if (full) setWhole({ [r.offset]: record(full) })
      })
    } catch (e) {
      setFailure(e)
    }
  }

  return html`
    <span class="crumb"><a href="#/logs">Logs</a> / <a href=${`#/logs/${encodeURIComponent(name)}`}>${name}</a></span>
    <div class="title"><h1>Records</h1><span class="quiet">${bounds ? (bounds.end > bounds.start ? html`${count(bounds.start)} to ${count(bounds.end)}` : 'none') : ''}</span>
      <span class="aside">${mayLog('append', name) && !sealed && html`<${AppendAction} name=${name} logId=${bounds?.id} after=${() => mode !== 'following' && read({ last: pageSize })} />`}
        <button type="button" class="small" disabled=${!records.length} onClick=${() => save(`${name}-${records[0].offset}.ndjson`, records.map(line).join('\n') + '\n', 'application/x-ndjson')}>Download shown</button></span></div>
    <div class="bar-of-tools">
      <div class="choice" role="group" aria-label="Place">
        <button type="button" onClick=${() => read({ position: 'READ_POSITION_START' })}>Start</button>
        <button type="button" disabled=${!bounds || isSet(filter) || (first ?? bounds.end) <= bounds.start} onClick=${earlier}>Earlier</button>
        <button type="button" disabled=${next === undefined || !bounds || next >= bounds.end} onClick=${() => read({ offset: String(next) })}>Later</button>
        <button type="button" onClick=${() => read(isSet(filter) ? { position: 'READ_POSITION_TAIL' } : { last: pageSize }, { follow: isSet(filter) })}>End</button>
      </div>
      <${Jump} go=${read} />
      ${mode === 'following' || mode === 'reading' ? html`<button type="button" class="small" onClick=${stop}>Stop</button>` : html`<button type="button" class="small" onClick=${() => read(isSet(filter) ? { position: 'READ_POSITION_TAIL' } : { last: 50 }, { follow: true })}>Follow</button>`}
      <button type="button" class="small" aria-expanded=${filtering} onClick=${() => setFiltering(!filtering)}>Filter${isSet(filter) ? ' (on)' : ''}</button>
      <span class="spacer"></span>
      <${Choice} label="Values as" value=${view} set=${choose} options=${[['json', 'JSON'], ['text', 'Text'], ['hex', 'Hex']]} />
    </div>
    ${filtering && html`<form class="filters" onSubmit=${(e) => { e.preventDefault(); apply(draft) }}>
      <${Field} label="Key is" value=${draft.key} set=${(key) => setDraft({ ...draft, key })} data-search />
      <${Field} label="Key begins with" value=${draft.prefix} set=${(prefix) => setDraft({ ...draft, prefix })} />
      <${Field} label="Header" value=${draft.header} set=${(header) => setDraft({ ...draft, header })} placeholder="region=eu" />
      <div><${Field} label="Expression (CEL)" value=${draft.where} set=${(where) => setDraft({ ...draft, where })} placeholder='value.amount > 100' class="mono" /></div>
      <button type="submit" class="small">Select on the server</button>
      <button type="button" class="small" disabled=${!isSet(filter) && !isSet(draft)} onClick=${() => { setDraft(emptyFilter); apply(emptyFilter) }}>Clear</button>
    </form>`}
    <${Wrong} failure=${failure} />
    <p class="status-line" role="status">${status({ mode, records, bounds, scanned, filter, skipped })}</p>
    ${bounds && bounds.end === bounds.start && !mode && !records.length && !failure
      ? html`<${Empty} title="This log has no records."><p>Append one above, or from a terminal:</p><${Command} text=${`echo '{"hello": "world"}' | strandline append ${quote(name)}`} /><//>`
      : html`<div class="records">
        <${Rows} className="record-rows" label="Records" items=${records} height=${26} keyOf=${(r) => r.offset} stick=${mode === 'following'} selected=${selected ?? -1} onSelect=${(r) => setSelected(r.offset)}
          head=${html`<${Cell} head class="num">Offset<//><${Cell} head class="narrow">Time ${zone(new Date()) === '+00:00' ? 'UTC' : zone(new Date())}<//><${Cell} head>Key<//><${Cell} head>Value<//>`}
          draw=${(r) => html`<${Cell} class="num">${count(r.offset)}<//><${Cell} class="narrow"><${Time} at=${r.at} date=${false} ms /><//><${Cell} class="mono">${r.key === undefined ? html`<span class="quiet">–</span>` : plain(r.key)}<//><${Cell} class="mono">${r.value === undefined ? html`<span class="quiet">null</span>` : view === 'hex' ? hexShort(r.value) : plain(r.value)}<//>`} />
        <div class="detail" tabindex="0" role="region" aria-label="Selected record">${chosen ? html`<${Detail} key=${chosen.offset} name=${name} r=${chosen} view=${view} load=${() => load(chosen)} />` : html`<p class="quiet">Select a record to see all of it. ${records.length ? html`<kbd>j</kbd> and <kbd>k</kbd> move in the list.` : ''}</p>`}</div>
      </div>`}
    ${command && html`<p class="label">The same as a command</p><${Command} text=${command} />`}`
}

function status({ mode, records, bounds, scanned, filter, skipped }) {
  if (!bounds) return ' '
  const parts = []
  if (mode === 'following') parts.push(`Following: ${records.length ? `${plural(records.length, 'record')} shown${records.length === most ? ', the newest' : ''}` : 'waiting for records'}.`)
  else if (records.length) parts.push(`${plural(records.length, 'record')}, ${count(records[0].offset)} to ${count(records.at(-1).offset)}.`)
  else if (mode === '' && isSet(filter)) parts.push('No record was selected.')
  if (isSet(filter) && scanned !== undefined) parts.push(`Scanned to ${count(scanned)} of ${count(bounds.end)}.`)
  if (skipped) parts.push(`The expression failed on ${plural(skipped, 'record')}, which ${skipped === 1 ? 'is' : 'are'} left out.`)
  return parts.join(' ') || ' '
}

function Jump({ go }) {
  const [text, setText] = useState('')
  const [wrong, setWrong] = useState(false)
  function jump(e) {
    e.preventDefault()
    const t = text.trim()
    const ago = /^(\d+)\s*(s|m|h|d)$/.exec(t)
    const time = ago ? new Date(Date.now() - Number(ago[1]) * { s: 1e3, m: 6e4, h: 36e5, d: 864e5 }[ago[2]]) : new Date(t.includes(':') && !t.includes('-') ? `${new Date().toLocaleDateString('sv')} ${t}` : t)
    const bad = !/^\d+$/.test(t) && Number.isNaN(time.getTime())
    setWrong(bad)
    if (bad || !t) return
    go(/^\d+$/.test(t) ? { offset: t } : { time: time.toISOString() })
  }
  return html`<form onSubmit=${jump}><input class="search" data-search aria-label="Go to an offset or a time" aria-invalid=${wrong} value=${text} onInput=${(e) => setText(e.target.value)} placeholder="Offset, 15m, 14:30 or 2026-11-28T14:30Z" autocomplete="off" spellcheck=${false} /></form>`
}

// line is a record as strandline read -o json writes it.
function line(r) {
  const part = (name, raw) => {
    if (raw === undefined) return {}
    const text = asText(raw)
    return text === undefined ? { [name + '_base64']: encode(raw) } : { [name]: text }
  }
  return JSON.stringify({ offset: r.offset, timestamp: r.at, ...part('key', r.key), ...part('value', r.value), ...(r.headers.length ? { headers: r.headers.map(([key, v]) => ({ key, ...part('value', v) })) } : {}) })
}

function Detail({ name, r, view, load }) {
  const text = r.value === undefined ? undefined : asText(r.value)
  const json = view === 'json' ? indented(text) : undefined
  const shown = r.value === undefined ? '' : json ?? (view === 'hex' || text === undefined ? hex(r.value) : text)
  return html`<dl>
      <dt>Offset</dt><dd>${count(r.offset)}</dd>
      <dt>Time</dt><dd><${Time} at=${r.at} ms both /></dd>
      <dt>Key</dt><dd class="mono">${r.key === undefined ? html`<span class="quiet">none</span>` : asText(r.key) ?? hexShort(r.key)}</dd>
      ${r.headers.map(([key, v]) => html`<dt class="mono">${key}</dt><dd class="mono">${v === undefined ? html`<span class="quiet">none</span>` : plain(v)}</dd>`)}
    </dl>
    <div class="section-head"><h3>Value${r.value !== undefined ? `, ${r.cut ? 'the first ' : ''}${bytes(r.value.length)}` : ''}</h3>
      <span class="aside">${r.cut && html`<button type="button" class="small" onClick=${load}>Load all of it</button>`}
        ${r.value !== undefined && html`<${Copy} text=${json === undefined ? shown : text} /><button type="button" class="small" onClick=${() => save(`${name}-${r.offset}`, r.value, 'application/octet-stream')}>Download</button>`}</span></div>
    ${r.value === undefined ? html`<p class="quiet">No value.</p>` : json !== undefined ? html`<pre>${coloured(shown)}</pre>` : html`<pre class=${shown !== text ? 'hex' : ''}>${shown}</pre>`}`
}

// coloured marks names, texts, numbers and words of JSON.
function coloured(text) {
  const parts = []
  let from = 0
  for (const found of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g)) {
    if (found.index > from) parts.push(text.slice(from, found.index))
    const kind = found[1] ? (found[2] ? 'json-key' : 'json-string') : found[3] ? 'json-word' : 'json-number'
    parts.push(html`<span class=${kind}>${found[1] || found[0]}</span>`)
    if (found[2]) parts.push(found[2])
    from = found.index + found[0].length
    if (parts.length > 4000) break
  }
  parts.push(text.slice(from))
  return parts
}

const stageWords = [['receive', 'receive'], ['queue', 'queue'], ['batch', 'batch'], ['write', 'write'], ['sync', 'sync'], ['replicas', 'replicas'], ['answer', 'answer']]

function Stages({ stages }) {
  const all = stageWords.map(([key, text]) => [text, duration(stages[key]) || 0]).filter(([, s]) => s > 0)
  const total = all.reduce((n, [, s]) => n + s, 0)
  if (!total) return null
  return html`<p class="label">Where its ${seconds(total)} on the leader went</p>
    <div class="stages" role="img" aria-label=${all.map(([text, s]) => `${text} ${seconds(s)}`).join(', ')}>${all.map(([, s], i) => html`<b class=${`k${(i % 5) + 1}`} style=${{ width: `${(100 * s) / total}%` }}></b>`)}</div>
    <div class="stage-list">${all.map(([text, s], i) => html`<span><i class=${`key k${(i % 5) + 1}`}></i>${text} ${seconds(s)}</span>`)}</div>`
}

function AppendAction({ name, logId, after }) {
  const [key, setKey] = useState('')
  const [value, setValue] = useState('')
  const [headers, setHeaders] = useState('')
  const lines = headers.split('\n').map((l) => l.trim()).filter(Boolean)
  const wrong = lines.some((l) => !l.includes('=')) ? 'NAME=VALUE on each line' : ''
  const pairs = lines.map((l) => [l.slice(0, l.indexOf('=')), l.slice(l.indexOf('=') + 1)])
  const json = useMemo(() => indented(value), [value])
  return html`<${Action} label="Append …" title=${`Append to ${name}`} after=${after} ready=${!wrong} wide
    command=${`printf '%s\\n' ${quote(JSON.stringify({ ...(key ? { key } : {}), value, ...(pairs.length ? { headers: pairs.map(([key, value]) => ({ key, value })) } : {}) }))} | strandline append ${quote(name)} -i json`}
    fields=${html`<label class="field"><span>Value${json !== undefined ? ', JSON' : ''}</span><textarea rows="5" data-first value=${value} onInput=${(e) => setValue(e.target.value)} spellcheck=${false}></textarea></label>
      <div class="pair"><${Field} label="Key" value=${key} set=${setKey} hint="empty: none" /><label class="field"><span>Headers</span><textarea rows="2" value=${headers} onInput=${(e) => setHeaders(e.target.value)} placeholder="region=eu" spellcheck=${false}></textarea><small class=${wrong ? 'bad' : ''}>${wrong || ' '}</small></label></div>`}
    effect=${html`<p>Appends one record of ${bytes(toBytes(value).length)} at the end of ${name}, for ever. The answer comes when it is as durable as the log promises.</p>`}
    run=${async () => {
      const result = await append(name, logId, [{ key: key ? encode(toBytes(key)) : undefined, value: encode(toBytes(value)), headers: pairs.map(([key, value]) => ({ key, value: encode(toBytes(value)) })) }])
      return html`<p>Appended at offset <b>${count(int(result.appended.firstOffset))}</b>.</p>${result.stages && html`<${Stages} stages=${result.stages} />`}`
    }} />`
}
