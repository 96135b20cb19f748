// Parts that pages share.

import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor/preact.js'
import { bothZones, bytes, clock, day, zone } from './format.js'
import { consoleOf, state } from './state.js'

// Time shows a moment in the local zone; in UTC beside it where both is set, and always as a title.
export function Time({ at, both, date = true, ms }) {
  if (!at) return html`<span class="quiet">–</span>`
  const d = at instanceof Date ? at : new Date(at)
  const zones = bothZones(d)
  const fraction = ms ? '.' + String(d.getUTCMilliseconds()).padStart(3, '0') : ''
  return html`<time datetime=${d.toISOString()} title=${`${zones.local}\n${zones.utc}`}>${date ? day(d) + ' ' : ''}${clock(d)}${fraction}${
    both && zone(d) !== '+00:00' ? html`<span class="quiet"> ${zone(d)} · ${clock(d, true)}Z</span>` : both ? html`<span class="quiet">Z</span>` : ''}</time>`
}

// Copy copies a text.
export function Copy({ text, label = 'Copy' }) {
  const [done, setDone] = useState(false)
  async function copy() {
    try {
      await navigator.clipboard.writeText(text)
    } catch {
      const area = document.createElement('textarea')
      area.value = text
      area.className = 'offscreen'
      ;(document.querySelector('dialog[open]') || document.body).append(area)
      area.select()
      document.execCommand('copy')
      area.remove()
    }
    setDone(true)
    setTimeout(() => setDone(false), 1500)
  }
  return html`<button type="button" class="small copy" onClick=${copy}>${done ? 'Copied' : label}</button>`
}

// Command shows a command line to copy.
export const Command = ({ text }) => html`<div class="command"><code>${text}</code><${Copy} text=${text} /></div>`

const outcomes = {
  not_done: 'Nothing was changed.',
  maybe_done: 'It may have happened all the same: look before you repeat it.',
  done: 'It was done before.',
}

// Wrong shows why a call failed, and what that means for who made it.
export function Wrong({ failure, action }) {
  if (!failure) return null
  const m = failure.metadata || {}
  return html`<div class="wrong" role="alert">
    <p>${failure.message}${failure.reason && html` <span class="reason">${failure.reason}</span>`}</p>
    ${failure.reason === 'NOT_LEADER' && m.leader && html`<${Elsewhere} address=${m.leader} />`}
    ${action && html`<p>${outcomes[failure.outcome]}${failure.retryable ? ' It may succeed later.' : ''}</p>`}
  </div>`
}

// Elsewhere leads to the console of the node that can do what this one cannot.
export function Elsewhere({ address, node }) {
  const n = state.nodes.find((n) => n.address === address || n.name === node)
  const link = n && consoleOf(n.name)
  return html`<p>This page asks the node that served it. ${n ? html`Node <b>${n.name}</b> can do it: ` : ''}${link
    ? html`<a href=${link + location.hash}>open its console</a>, or use the command, which finds the node itself.`
    : html`Open the console${n ? '' : ' of the node that leads'} there${address ? html` (gRPC at <code>${address}</code>)` : ''}, or use the command, which finds the node itself.`}</p>`
}

// Dialog is a modal that Escape and a click beside it close.
export function Dialog({ title, onClose, children, wide }) {
  const box = useRef()
  useLayoutEffect(() => {
    const dialog = box.current
    dialog.showModal()
    dialog.querySelector('[data-first]')?.focus()
    return () => dialog.open && dialog.close()
  }, [])
  return html`<dialog ref=${box} class=${wide ? 'wide' : ''} aria-label=${title}
    onCancel=${(e) => { e.preventDefault(); onClose() }}
    onMouseDown=${(e) => { if (e.target === box.current) onClose() }}>
    <div class="sheet"><h2>${title}</h2>${children}</div>
  </dialog>`
}

// Action is a button that first says what it does, and shows the same as a command.
// fields draws inputs; effect says what happens; run does it and may return what to show.
export function Action({ label, title, effect, command, run, danger, fields, ready = true, confirm, after, small = true, wide }) {
  const [open, setOpen] = useState(false)
  return html`<button type="button" class=${`${small ? 'small' : ''} ${danger ? 'danger' : ''}`} onClick=${() => setOpen(true)}>${label}</button>
    ${open && html`<${Sheet} ...${{ title: title || label, label, effect, command, run, danger, fields, ready, confirm, after, wide }} close=${() => setOpen(false)} />`}`
}

// Opener is a button that mounts a component, which draws a Sheet, when it is clicked: a form then begins with what holds at that
// moment, and not with what held when the page was drawn. What it keeps in its state is fixed until it is closed.
export function Opener({ label, danger, sheet, ...rest }) {
  const [open, setOpen] = useState(false)
  return html`<button type="button" class=${`small ${danger ? 'danger' : ''}`} onClick=${() => setOpen(true)}>${label}</button>
    ${open && html`<${sheet} ...${{ label, danger, ...rest }} close=${() => setOpen(false)} />`}`
}

// Sheet is the dialog of an action.
export function Sheet({ title, label, effect, command, run, danger, fields, ready = true, confirm, after, wide, close }) {
  const [busy, setBusy] = useState(false)
  const [failure, setFailure] = useState()
  const [done, setDone] = useState()
  const [typed, setTyped] = useState('')
  const leave = () => {
    close()
    if (done && after) after()
  }
  async function act(e) {
    e.preventDefault()
    if (busy || !ready || (confirm && typed !== confirm)) return
    setBusy(true)
    setFailure(undefined)
    try {
      const result = await run()
      setDone(result || 'Done.')
    } catch (e) {
      setFailure(e)
    }
    setBusy(false)
  }
  return html`<${Dialog} title=${title} onClose=${leave} wide=${wide}>
    <form onSubmit=${act}>
      ${done
        ? html`<div class="done" role="status">${done}</div><div class="buttons"><button type="button" data-first onClick=${leave}>Close</button></div>`
        : html`
        ${fields}
        <div class="effect">${effect}</div>
        ${command && html`<p class="label">The same as a command</p><${Command} text=${command} />`}
        ${confirm && html`<label class="field">Type <b>${confirm}</b> to confirm<input value=${typed} onInput=${(e) => setTyped(e.target.value)} autocomplete="off" spellcheck=${false} /></label>`}
        <${Wrong} failure=${failure} action />
        <div class="buttons">
          <button type="button" data-first=${!fields || undefined} onClick=${close}>Cancel</button>
          <button type="submit" class=${danger ? 'danger solid' : 'solid'} disabled=${busy || !ready || (confirm && typed !== confirm)}>${busy ? 'Working …' : label.replace(/ …$/, '')}</button>
        </div>`}
    </form>
  <//>`
}

// Field is a labelled input.
export const Field = ({ label, hint, value, set, wrong, ...rest }) => html`<label class="field"><span>${label}</span>
  <input value=${value} onInput=${(e) => set(e.target.value)} autocomplete="off" spellcheck=${false} aria-invalid=${!!wrong} ...${rest} />
  ${(wrong || hint) && html`<small class=${wrong ? 'bad' : ''}>${wrong || hint}</small>`}</label>`

// Choice is a group of buttons of which one is pressed.
export const Choice = ({ label, value, set, options }) => html`<div class="choice" role="group" aria-label=${label}>
  ${options.map(([key, text, title]) => html`<button type="button" aria-pressed=${value === key} title=${title} onClick=${() => set(key)}>${text}</button>`)}
</div>`

// Empty says what would be here and how it comes.
export const Empty = ({ title, children }) => html`<div class="empty"><p class="empty-title">${title}</p>${children}</div>`

// State is a word with a mark that does not rest on colour alone.
export const State = ({ kind, children, title }) => html`<span class=${`state ${kind}`} title=${title}><i aria-hidden="true">${
  { good: '●', bad: '✕', warn: '▲', quiet: '○' }[kind]}</i>${children}</span>`

// Meter shows a share.
export const Meter = ({ used, total, label }) => {
  if (!total) return html`<span class="quiet">–</span>`
  const share = Math.min(1, used / total)
  return html`<span class="meter" role="img" aria-label=${`${label}: ${Math.round(share * 100)} %`}><span class=${share > 0.97 ? 'bar bad' : share > 0.9 ? 'bar warn' : 'bar'}><b style=${{ width: `${share * 100}%` }}></b></span></span>`
}

// Rows draws the rows that can be seen of a list, each of the same height. Up and down, or j and k, move the focus.
export function Rows({ items, height, draw, keyOf, label, columns, head, className = '', selected, onSelect, stick }) {
  const box = useRef()
  const [at, setAt] = useState({ top: 0, view: 600 })
  useLayoutEffect(() => {
    const element = box.current
    const look = () => setAt({ top: element.scrollTop, view: element.clientHeight })
    const watch = new ResizeObserver(look)
    watch.observe(element)
    element.addEventListener('scroll', look, { passive: true })
    look()
    return () => { watch.disconnect(); element.removeEventListener('scroll', look) }
  }, [])
  useLayoutEffect(() => {
    if (stick) box.current.scrollTop = box.current.scrollHeight
  }, [stick && items.length, stick && items.length && keyOf(items[items.length - 1])])
  const first = Math.max(0, Math.floor(at.top / height) - 8)
  const last = Math.min(items.length, Math.ceil((at.top + at.view) / height) + 8)
  function move(e) {
    if (e.target !== box.current && !onSelect) return
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 20, PageUp: -20 }[e.key]
    if (!step || !onSelect || !items.length || e.ctrlKey || e.metaKey || e.altKey) return
    e.preventDefault()
    const now = items.findIndex((item) => keyOf(item) === selected)
    const next = Math.min(items.length - 1, Math.max(0, now < 0 ? (step > 0 ? 0 : items.length - 1) : now + step))
    onSelect(items[next])
    const top = next * height
    const headHeight = head ? height : 0
    if (top < box.current.scrollTop) box.current.scrollTop = top
    else if (top + height + headHeight > box.current.scrollTop + box.current.clientHeight) box.current.scrollTop = top + height + headHeight - box.current.clientHeight
  }
  return html`<div class=${`rows ${className}`} ref=${box} tabindex="0" role="table" aria-label=${label} aria-rowcount=${items.length + 1} onKeyDown=${move}>
    <div class="row head" role="row" aria-rowindex="1">${head}</div>
    <div class="space" role="rowgroup" style=${{ height: `${items.length * height}px` }}>
      ${items.slice(first, last).map((item, i) => html`<div key=${keyOf(item)} role="row" aria-rowindex=${first + i + 2}
        class=${`row ${selected !== undefined && keyOf(item) === selected ? 'selected' : ''}`}
        style=${{ top: `${(first + i) * height}px`, height: `${height}px` }}
        onClick=${onSelect && (() => onSelect(item))}>${draw(item)}</div>`)}
    </div>
  </div>`
}

// Cell is one of a row of Rows.
export const Cell = ({ class: c = '', head, title, children }) => html`<span role=${head ? 'columnheader' : 'cell'} class=${c} title=${title}>${children}</span>`

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

// resolved returns a colour that a canvas can take: that of a probe, as light-dark() is no colour for it.
function resolved(name) {
  const probe = document.createElement('i')
  probe.style.color = `var(${name})`
  document.body.append(probe)
  const colour = getComputedStyle(probe).color
  probe.remove()
  return colour
}

// minute returns data with a minute at least, so that the axis does not jump while the first points come.
function minute(data) {
  const [xs, ...values] = data
  const last = xs.at(-1) ?? Date.now() / 1000
  if (xs.length > 1 && xs[0] <= last - 60) return data
  const end = xs.length ? [] : [last]
  return [[last - 60, ...xs, ...end], ...values.map((v) => [null, ...v, ...end.map(() => null)])]
}

// Chart draws series over time: data is [seconds[], values[], ...].
export function Chart({ title, data, series, value, height = 132 }) {
  const box = useRef()
  const plot = useRef()
  const [theme, setTheme] = useState(0)
  useEffect(() => {
    const again = () => setTheme((n) => n + 1)
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', again)
    addEventListener('themechange', again)
    return () => { dark.removeEventListener('change', again); removeEventListener('themechange', again) }
  }, [])
  useEffect(() => {
    const [line, quiet] = [resolved('--line'), resolved('--quiet')]
    const colours = ['--series-1', '--series-2', '--series-3', '--series-4', '--series-5'].map(resolved)
    const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: '11px ' + (ink('--sans') || 'sans-serif') }
    const size = () => ({ width: Math.max(200, box.current.clientWidth), height })
    plot.current = new window.uPlot({
      ...size(),
      legend: { show: false },
      cursor: { points: { size: 5 }, drag: { x: false, y: false } },
      padding: [8, 4, 0, 0],
      scales: {
        y: { range: (_, low, high) => [0, (high || 1) * 1.15] },
      },
      axes: [
        { ...axis, size: 22, space: 70, values: (_, marks) => marks.map((s) => clock(new Date(s * 1000))) },
        { ...axis, size: 64, space: 28, values: (u, marks) => marks.map((v) => (v && !u.series.some((s, i) => i && s.max > 0) ? '' : value(v))) },
      ],
      series: [{}, ...series.map((name, i) => ({ label: name, stroke: colours[i], width: 1.5, points: { show: false }, fill: series.length === 1 ? colours[i].replace(/^rgb\((.*)\)$/, 'rgba($1, 0.08)') : undefined }))],
    }, minute(data), box.current)
    const watch = new ResizeObserver(() => plot.current?.setSize(size()))
    watch.observe(box.current)
    return () => { watch.disconnect(); plot.current.destroy(); plot.current = undefined }
  }, [theme, series.join()])
  useEffect(() => plot.current?.setData(minute(data)), [data])
  const newest = series.map((_, i) => data[i + 1]?.findLast((v) => v !== null && v !== undefined))
  return html`<figure class="chart"><figcaption><span>${title}</span><span class="legend">${series.map((name, i) => html`<span><i class=${`key k${i + 1}`} aria-hidden="true"></i>${series.length > 1 ? name + ' ' : ''}<b>${newest[i] === undefined ? '–' : value(newest[i])}</b></span>`)}</span></figcaption>
    <div class="plot" ref=${box} style=${{ height: `${height}px` }} role="img" aria-label=${`${title}: ${series.map((name, i) => `${name} ${newest[i] === undefined ? 'unknown' : value(newest[i])}`).join(', ')}`}></div></figure>`
}

// useEvery calls f at once, and again some seconds after it is done. f gets a signal that ends with the page. A list
// is still while a dialog is open, so that the row that it is of does not go.
export function useEvery(seconds, f, on, still = false) {
  useEffect(() => {
    const control = new AbortController()
    let timer
    async function run() {
      try {
        if (!still || !document.querySelector('dialog[open]')) await f(control.signal)
      } catch (e) {
        if (!control.signal.aborted) console.warn(e)
      }
      if (!control.signal.aborted) timer = setTimeout(run, seconds * (document.hidden ? 5000 : 1000))
    }
    run()
    return () => { control.abort(); clearTimeout(timer) }
  }, on)
}

// save has the browser keep a text or bytes as a file.
export function save(name, content, type) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([content], { type }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10000)
}

// sized is a size for a title.
export const sized = (n) => bytes(n)
