// What this page has seen change since it was opened. The API has no list of events, so there is nothing from before.

import { html, useState } from './vendor/preact.js'
import { count } from './format.js'
import { Cell, Choice, Command, Empty, Rows, State, Time } from './parts.js'
import { useCluster } from './state.js'

const kinds = { election: 'leader', node: 'node', replica: 'replica', log: 'log' }

export function Events() {
  const cluster = useCluster()
  const [kind, setKind] = useState('all')
  const [text, setText] = useState('')
  const items = cluster.events.filter((e) => (kind === 'all' || e.kind === kind) && e.text.toLowerCase().includes(text.toLowerCase()))
  return html`<div class="title"><h1>Events</h1><span class="quiet">seen by this page since <${Time} at=${cluster.opened} both /></span></div>
    <p class="quiet">Changes of leaders, nodes, replicas and logs between two looks, newest first. What the nodes refuse and who changed what is in the <b>audit log</b>, a file of each node (<code>serve --audit-log</code>), which no call of the API reads.</p>
    <div class="bar-of-tools"><input class="search" type="search" data-search aria-label="Search events" placeholder="Search  ( / )" value=${text} onInput=${(e) => setText(e.target.value)} />
      <${Choice} label="Which events" value=${kind} set=${setKind} options=${[['all', 'All'], ['election', 'Leaders'], ['node', 'Nodes'], ['replica', 'Replicas'], ['log', 'Logs']]} />
      <span class="quiet">${items.length ? count(items.length) : ''}</span></div>
    ${items.length === 0 ? html`<${Empty} title="Nothing has changed yet."><p>Leave this tab open: it looks every 2 s, also while you are on another page of the console. To see something, let another node lead a log:</p><${Command} text="strandline cluster transfer-leader orders --to b" /><//>`
    : html`<${Rows} className="events" label="Events, newest first" items=${items} height=${28} keyOf=${(e) => e.id}
      head=${html`<${Cell} head>Time<//><${Cell} head class="narrow">Of<//><${Cell} head>What<//>`}
      draw=${(e) => html`<${Cell}><${Time} at=${e.at} date=${false} both=${innerWidth > 600} /><//><${Cell} class="quiet narrow">${kinds[e.kind]}<//><${Cell} title=${e.text}>${e.bad ? html`<${State} kind="bad">${e.text}<//>` : e.kind === 'log' || e.kind === 'election' || e.kind === 'replica' ? html`<a href=${`#/logs/${encodeURIComponent(e.about)}`}>${e.text}</a>` : e.text}<//>`} />`}`
}
