// The frame of all pages: which one is shown, who is signed in, and what holds for all.

import { html, render, useEffect, useState } from './vendor/preact.js'
import { call, signedIn, signIn } from './api.js'
import { bothZones, clock, zone } from './format.js'
import { Dialog, Time, Wrong } from './parts.js'
import { restart, state, useCluster } from './state.js'
import { Cluster } from './cluster.js'
import { Logs } from './logs.js'
import { Log } from './log.js'
import { Records } from './records.js'
import { Groups } from './groups.js'
import { Access } from './access.js'
import { Events } from './events.js'

const pages = [
  ['cluster', 'Cluster', 'c', Cluster],
  ['logs', 'Logs', 'l', Logs],
  ['groups', 'Groups', 'r', Groups],
  ['access', 'Access', 'a', Access],
  ['events', 'Events', 'e', Events],
]

// place is the page that the address names: #/logs/orders/records?offset=7.
function place() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?')
  return { parts: decoded(path.split('/').filter(Boolean)) || [path], query: new URLSearchParams(query) }
}

// decoded returns the parts of an address, or nothing if they are none: its path, such as logs/%, is then the name of no page.
function decoded(parts) {
  try {
    return parts.map(decodeURIComponent)
  } catch {
    return undefined
  }
}

function usePlace() {
  const [at, setAt] = useState(place)
  useEffect(() => {
    const moved = () => setAt(place())
    addEventListener('hashchange', moved)
    return () => removeEventListener('hashchange', moved)
  }, [])
  return at
}

function App() {
  const cluster = useCluster()
  const at = usePlace()
  const [keys, setKeys] = useState(false)
  const [name = 'cluster', log, below] = at.parts
  useKeys(() => setKeys(true))
  useEffect(() => {
    document.title = [below, log, (pages.find(([key]) => key === name) || pages[0])[1], 'Strandline'].filter(Boolean).join(' · ')
    if (document.activeElement === document.body || !document.activeElement?.isConnected) document.querySelector('main')?.focus({ preventScroll: true })
  }, [name, log, below])
  const anonymous = cluster.me?.enforced && !cluster.me.principal
  if (anonymous || cluster.expired) return html`<${Head} name=${name} bare /><${SignIn} expired=${cluster.expired} />`
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.querySelector('main').focus() }}>Skip to the page</a>
    <${Head} name=${name} showKeys=${() => setKeys(true)} />
    <div class="notices" aria-live="polite">${cluster.failure && html`<${Silence} failure=${cluster.failure} />`}</div>
    <main id="main" tabindex="-1" class=${cluster.failure && cluster.loaded ? 'old' : ''}>
      ${!cluster.me ? (cluster.failure ? null : html`<p class="quiet loading">Asking this node …</p>`) : html`<${Page} name=${name} log=${log} below=${below} query=${at.query} />`}
    </main>
    <${Foot} />
    ${keys && html`<${Keys} close=${() => setKeys(false)} />`}`
}

function Page({ name, log, below, query }) {
  if (name === 'logs' && log && below === 'records') return html`<${Records} key=${log} name=${log} query=${query} />`
  if (name === 'logs' && log) return html`<${Log} key=${log} name=${log} />`
  const found = pages.find(([key]) => key === name)
  if (!found) return html`<h1>There is no such page</h1><p><a href="#/cluster">Cluster</a></p>`
  return html`<${found[3]} item=${log} query=${query} />`
}

function Silence({ failure }) {
  return html`<div class="notice bad"><b>${failure.status === 0 ? 'This node does not answer.' : failure.message}</b> ${state.answered
    ? html`What you see is of <${Time} at=${state.answered} date=${false} />.` : ''} Asked again every 2 s.${failure.status === 0 ? ' The other nodes have the same console.' : ''}</div>`
}

function Head({ name, bare, showKeys }) {
  const cluster = useCluster()
  return html`<header>
    <a class="mark" href="#/cluster" aria-label="Strandline, the cluster"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M1 4.5c2.3-2 4.7-2 7 0s4.7 2 7 0M1 8.5c2.3-2 4.7-2 7 0s4.7 2 7 0M1 12.5c2.3-2 4.7-2 7 0s4.7 2 7 0" /></svg><b>Strandline</b></a>
    ${!bare && html`<nav aria-label="Pages">${pages.map(([key, title]) => html`<a href=${`#/${key}`} aria-current=${key === name ? 'page' : undefined}>${title}</a>`)}</nav>`}
    <div class="aside">
      <${Clock} />
      ${cluster.me?.principal && html`<span class="who" title=${cluster.me.tokenId ? `by the token ${cluster.me.tokenId}` : 'by a certificate'}>${cluster.me.principal}</span>`}
      ${cluster.me && !cluster.me.enforced && html`<span class="who quiet" title="Whoever reaches this port may do everything: docs/rights.md">rights not enforced</span>`}
      ${signedIn() && html`<button type="button" class="small" onClick=${() => { signIn(''); restart() }}>Sign out</button>`}
      <${Theme} />
      ${showKeys && html`<button type="button" class="small icon wide-only" aria-label="Keys" title="Keys (?)" onClick=${showKeys}>?</button>`}
    </div>
  </header>`
}

function Clock() {
  const [now, setNow] = useState(new Date())
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), 1000)
    return () => clearInterval(timer)
  }, [])
  const local = zone(now) !== '+00:00'
  return html`<span class="clock" title=${Object.values(bothZones(now)).join('\n')}>${local && html`${clock(now)}<span class="quiet"> ${zone(now)}</span> · `}${clock(now, true)}<span class="quiet">Z</span></span>`
}

const themes = { '': ['light', '◐', 'as the system'], light: ['dark', '○', 'light'], dark: ['', '●', 'dark'] }

function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme || '')
  const [next, sign, label] = themes[theme]
  function change() {
    setTheme(next)
    if (next) {
      document.documentElement.dataset.theme = next
      localStorage.setItem('strandline.theme', next)
    } else {
      delete document.documentElement.dataset.theme
      localStorage.removeItem('strandline.theme')
    }
    dispatchEvent(new Event('themechange'))
  }
  return html`<button type="button" class="small icon" aria-label=${`Colours: ${label}`} title=${`Colours: ${label}`} onClick=${change}>${sign}</button>`
}

function SignIn({ expired }) {
  const [token, setToken] = useState('')
  const [failure, setFailure] = useState()
  async function enter(e) {
    e.preventDefault()
    const text = token.trim()
    if (!text) return
    signIn(text)
    try {
      const me = await call('AccessService/WhoAmI')
      if (!me.principal) throw new Error('this token is not known: it has expired, was revoked, or is of another cluster')
      setToken('')
      restart()
    } catch (e) {
      signIn('')
      setFailure(e)
    }
  }
  return html`<main class="signin" id="main" tabindex="-1">
    <h1>Sign in</h1>
    <p>${expired ? 'The node no longer accepts your token: it has expired or was revoked.' : 'This cluster enforces rights. An access token says who you are.'}</p>
    <form onSubmit=${enter}>
      <label class="field"><span>Access token</span><input type="password" value=${token} onInput=${(e) => setToken(e.target.value)} autocomplete="off" spellcheck=${false} autofocus /></label>
      <${Wrong} failure=${failure} />
      <div class="buttons"><button type="submit" class="solid">Sign in</button></div>
    </form>
    <p class="quiet">An administrator makes one, for example for a week:</p>
    <div class="command"><code>strandline token create alice --expires 7d</code></div>
    <p class="quiet">It stays in this tab until you sign out or close it, and is sent in a header only. A client certificate in your browser does as well.</p>
  </main>`
}

function Foot() {
  const cluster = useCluster()
  return html`<footer>
    <span>${cluster.clusterId && html`cluster <code>${cluster.clusterId}</code>`}</span>
    <span class="links"><a href="/metrics">/metrics</a><a href="/readyz">/readyz</a><a href="/livez">/livez</a></span>
  </footer>`
}

const keyList = [
  ['g c', 'Cluster'], ['g l', 'Logs'], ['g r', 'Groups'], ['g a', 'Access'], ['g e', 'Events'],
  ['/', 'search or filter'], ['j  k', 'down, up in a list of records'], ['Esc', 'close what is open'], ['?', 'these keys'],
]

const Keys = ({ close }) => html`<${Dialog} title="Keys" onClose=${close}>
  <dl class="keys">${keyList.map(([key, what]) => html`<div><dt>${key.split(' ').filter(Boolean).map((k) => html`<kbd>${k}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
  <div class="buttons"><button type="button" data-first onClick=${close}>Close</button></div>
<//>`

function useKeys(help) {
  useEffect(() => {
    let go = 0
    function pressed(e) {
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || document.querySelector('dialog[open]')) return
      if (e.key === '?') help()
      else if (e.key === '/') {
        const search = document.querySelector('[data-search]')
        if (!search) return
        e.preventDefault()
        search.focus()
      } else if (e.key === 'g') go = performance.now()
      else if (performance.now() - go < 1500) {
        const found = pages.find(([, , key]) => key === e.key)
        go = 0
        if (found) location.hash = `#/${found[0]}`
      }
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [])
}

render(html`<${App} />`, document.getElementById('app'))
restart()
