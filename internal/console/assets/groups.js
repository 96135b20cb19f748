// Consumer groups of Kafka's clients: who is in them, how much they have not read yet, and from where they continue.

import { html, useState } from './vendor/preact.js'
import { call } from './api.js'
import { count, int, plural, quote } from './format.js'
import { Action, Choice, Command, Elsewhere, Empty, Field, State, Time, useEvery, Wrong } from './parts.js'
import { may, useCluster } from './state.js'

export function Groups({ item }) {
  return item ? html`<${Group} key=${item} name=${item} />` : html`<${List} />`
}

function List() {
  const [groups, setGroups] = useState()
  const [failure, setFailure] = useState()
  const [text, setText] = useState('')
  useEvery(5, async (signal) => {
    try {
      const found = []
      let after = ''
      do {
        const answer = await call('GroupService/ListGroups', { after }, signal)
        found.push(...answer.groups)
        after = answer.next
      } while (after && found.length < 10000)
      setGroups(found)
      setFailure(undefined)
    } catch (e) {
      if (!signal.aborted) setFailure(e)
    }
  }, [])
  const shown = (groups || []).filter((g) => g.group.toLowerCase().includes(text.toLowerCase()))
  if (failure?.reason === 'NOT_LEADER') return html`<h1>Groups</h1><${Empty} title="Another node coordinates consumer groups."><${Elsewhere} address=${failure.metadata.leader} /><${Command} text="strandline group list" /><//>`
  if (!groups) return html`<h1>Groups</h1><${Wrong} failure=${failure?.status ? failure : undefined} /><p class="quiet loading">${failure ? '' : 'Asking for groups …'}</p>`
  if (!groups.length) {
    return html`<h1>Groups</h1><${Empty} title="There is no consumer group that you may see.">
      <p>Kafka's clients share the partitions of topics in a group, and a topic is a log. One begins with the first consumer that joins it, here by Kafka's own tool:</p>
      <${Command} text="kafka-console-consumer.sh --bootstrap-server 127.0.0.1:9092 --topic orders --group billing" /><//>`
  }
  return html`<div class="title"><h1>Groups</h1><span class="quiet">${plural(groups.length, 'group')}</span></div>
    <div class="bar-of-tools"><input class="search" type="search" data-search aria-label="Search groups by name" placeholder="Search by name  ( / )" value=${text} onInput=${(e) => setText(e.target.value)} /></div>
    <table class="stack"><thead><tr><th>Group</th><th>State</th><th class="num">Members</th><th>Kind</th>${may('administer') && html`<th>Whose</th>`}</tr></thead><tbody>
      ${shown.slice(0, 500).map((g) => html`<tr key=${g.group}><td data-label="Group" class="break"><a href=${`#/groups/${encodeURIComponent(g.group)}`}>${g.group}</a></td><td data-label="State"><${GroupState} state=${g.state} /></td><td data-label="Members" class="num">${count(g.members)}</td><td data-label="Kind">${g.protocolType || html`<span class="quiet">–</span>`}</td>${may('administer') && html`<td data-label="Whose">${g.principal || html`<span class="quiet">–</span>`}</td>`}</tr>`)}
    </tbody></table>${shown.length > 500 && html`<p class="quiet">The first 500 of ${count(shown.length)}: search for others.</p>`}`
}

const words = { Stable: ['good', 'stable'], Empty: ['quiet', 'no members'], PreparingRebalance: ['warn', 'members join'], CompletingRebalance: ['warn', 'partitions are divided'], Dead: ['quiet', 'deleted'] }

const GroupState = ({ state }) => html`<${State} kind=${(words[state] || ['quiet'])[0]}>${(words[state] || [0, state])[1]}<//>`

function Group({ name }) {
  const cluster = useCluster()
  const [got, setGot] = useState({})
  const [failure, setFailure] = useState()
  const [again, setAgain] = useState(0)
  const refresh = () => setAgain((n) => n + 1)
  useEvery(3, async (signal) => {
    try {
      const [group, offsets] = await Promise.all([call('GroupService/DescribeGroup', { group: name }, signal), call('GroupService/ListGroupOffsets', { group: name }, signal)])
      // The ends of logs that the page knows already; of the others, each is asked for.
      const ends = await Promise.all(offsets.offsets.slice(0, 200).map(async (o) => {
        const known = cluster.logs.get(o.log)
        if (known?.end !== undefined && cluster.logs.size < 1000) return known.end
        return call('LogService/GetInfo', { log: o.log, allowStale: true }, signal).then(({ info }) => int(info.endOffset), () => undefined)
      }))
      setGot({ group, offsets: offsets.offsets.map((o, i) => ({ ...o, end: ends[i] })), more: offsets.more })
      setFailure(undefined)
    } catch (e) {
      if (!signal.aborted) setFailure(e)
    }
  }, [name, again], true)
  const crumb = html`<span class="crumb"><a href="#/groups">Groups</a></span>`
  if (failure?.reason === 'NOT_LEADER') return html`${crumb}<h1>${name}</h1><${Empty} title="Another node coordinates consumer groups."><${Elsewhere} address=${failure.metadata.leader} /><${Command} text=${`strandline group describe ${quote(name)}`} /><//>`
  if (!got.group) return html`${crumb}<h1>${name}</h1><${Wrong} failure=${failure?.status ? failure : undefined} /><p class="quiet loading">${failure ? '' : 'Asking for the group …'}</p>`
  const { info, members, protocol, coordinator } = got.group
  const lags = got.offsets.map((o) => (o.offset !== undefined && o.end !== undefined ? Math.max(0, o.end - int(o.offset)) : undefined))
  const total = lags.some((l) => l !== undefined) ? lags.reduce((n, l) => n + (l || 0), 0) : undefined
  const holder = new Map(members.flatMap((m) => m.assigned.flatMap((a) => a.partitions.map((p) => [`${a.topic} ${p}`, m.clientId || m.memberId]))))
  return html`${crumb}<div class="title"><h1>${name}</h1><${GroupState} state=${info.state} />
      <span class="aside">${may('read', `group/${name}`) && html`<${Reset} name=${name} offsets=${got.offsets} members=${members.length} after=${refresh} />`}
        ${may('read', `group/${name}`) && members.length > 0 && html`<${Action} label="Evict all …" title=${`Evict all members of ${name}`} danger after=${refresh} command=${`strandline group evict ${quote(name)}`}
          effect=${html`<p>${plural(members.length, 'member')} must leave the group. Their clients join again by themselves, unless they were stopped.</p>`}
          run=${async () => { const { evicted } = await call('GroupService/EvictMembers', { group: name }); return `${plural(evicted, 'member')} evicted.` }} />`}
        ${may('delete', `group/${name}`) && html`<${Action} label="Delete …" title=${`Delete ${name}`} danger confirm=${name} command=${`strandline group delete ${quote(name)}`}
          effect=${html`<p>Deletes the group with all offsets that it has committed. Its consumers begin where their setting auto.offset.reset says. ${members.length ? html`<span class="warn">It is refused while the group has members.</span>` : ''}</p>`}
          run=${async () => { await call('GroupService/DeleteGroup', { group: name }); return html`<p>Deleted. <a href="#/groups">All groups</a></p>` }} />`}</span></div>
    <${Wrong} failure=${failure?.status ? failure : undefined} />
    <dl class="facts"><div><dt>Lag</dt><dd>${count(total)} <small>records</small></dd></div><div><dt>Members</dt><dd>${count(info.members)}</dd></div><div><dt>Partitions</dt><dd>${count(got.offsets.length)}${got.more ? '+' : ''}</dd></div><div><dt>Divided by</dt><dd>${protocol || '–'}</dd></div><div><dt>Coordinator</dt><dd>${coordinator}</dd></div></dl>
    <section><div class="section-head"><h2>Partitions</h2></div>
      ${got.offsets.length === 0 ? html`<p class="quiet">The group has committed no offset yet.</p>` : html`<table class="stack"><thead><tr><th>Topic</th><th class="num">Partition</th><th class="num">Continues at</th><th class="num">Log ends at</th><th class="num">Lag</th><th>Read by</th><th>Committed</th></tr></thead><tbody>
      ${got.offsets.map((o, i) => html`<tr key=${`${o.topic} ${o.partition}`}><td data-label="Topic" class="break"><a href=${`#/logs/${encodeURIComponent(o.log)}`}>${o.topic}</a></td><td data-label="Partition" class="num">${o.partition}</td>
        <td data-label="Continues at" class="num">${o.offset === undefined ? html`<span class="quiet">–</span>` : html`<a href=${`#/logs/${encodeURIComponent(o.log)}/records?offset=${o.offset}`}>${count(int(o.offset))}</a>`}</td><td data-label="Log ends at" class="num">${count(o.end)}</td>
        <td data-label="Lag" class=${`num ${lags[i] ? 'warn' : ''}`}>${count(lags[i])}</td><td data-label="Read by" class="break">${holder.get(`${o.topic} ${o.partition}`) || html`<span class="quiet">nobody</span>`}</td><td data-label="Committed"><${Time} at=${o.committed} /></td></tr>`)}</tbody></table>`}</section>
    <section><div class="section-head"><h2>Members</h2></div>
      ${members.length === 0 ? html`<p class="quiet">Nobody is in the group now. What it has committed stays, and offsets can be reset.</p>` : html`<table class="stack"><thead><tr><th>Client</th><th>Member</th><th>Address</th><th>Reads</th><th></th></tr></thead><tbody>
      ${members.map((m) => html`<tr key=${m.memberId}><td data-label="Client" class="break"><b>${m.clientId}</b>${m.principal ? ` ${m.principal}` : ''}</td><td data-label="Member" class="mono break">${m.instanceId || m.memberId}</td><td data-label="Address" class="mono">${m.host}</td>
        <td data-label="Reads" class="break">${m.assigned.map((a) => `${a.topic}: ${a.partitions.join(', ')}`).join('; ') || html`<span class="quiet">nothing</span>`}${m.truncated ? ' …' : ''}</td>
        <td class="act">${may('read', `group/${name}`) && html`<${Action} label="Evict …" title=${`Evict ${m.clientId || m.memberId}`} danger after=${refresh} command=${`strandline group evict ${quote(name)} ${quote(m.memberId)}`}
          effect=${html`<p>The member must leave the group, and others take over its partitions. Its client joins again by itself, unless it was stopped.</p>`}
          run=${async () => { await call('GroupService/EvictMembers', { group: name, member: m.memberId }) }} />`}</td></tr>`)}</tbody></table>`}</section>`
}

// Reset has the group continue somewhere else in one topic, or in all of its topics.
function Reset({ name, offsets, members, after }) {
  const topics = [...new Set(offsets.map((o) => o.topic))]
  const [topic, setTopic] = useState('')
  const [to, setTo] = useState('start')
  const [text, setText] = useState('')
  const mine = offsets.filter((o) => !topic || o.topic === topic)
  const wrong = to === 'offset' && text && !/^\d+$/.test(text) ? 'a number' : ''
  const flags = (topic ? [topic] : topics).map((t) => `--topic ${quote(t)}`).join(' ')
  async function plan() {
    return Promise.all(mine.map(async (o) => {
      const { info } = await call('LogService/GetInfo', { log: o.log })
      const [start, end] = [int(info.startOffset), int(info.endOffset)]
      const offset = to === 'start' ? start : to === 'end' ? end : Math.min(end, Math.max(start, Number(text)))
      return { topic: o.topic, partition: o.partition, offset: String(offset), metadata: o.metadata }
    }))
  }
  if (!topics.length) return null
  return html`<${Action} label="Reset offsets …" title=${`Reset the offsets of ${name}`} after=${after} ready=${!members && (to !== 'offset' || (text && !wrong))} danger
    command=${`strandline group reset ${quote(name)} ${flags} --to-${to}${to === 'offset' ? ` ${text || 'OFFSET'}` : ''}`}
    fields=${html`<label class="field"><span>Topic</span><select value=${topic} onChange=${(e) => setTopic(e.target.value)} data-first><option value="">all of its topics</option>${topics.map((t) => html`<option value=${t}>${t}</option>`)}</select></label>
      <p><${Choice} label="Continue at" value=${to} set=${setTo} options=${[['start', 'the oldest record'], ['end', 'new records only'], ['offset', 'an offset']]} /></p>
      ${to === 'offset' && html`<${Field} label="Offset" value=${text} set=${setText} inputmode="numeric" wrong=${wrong} hint="where it is outside of a log, the nearest that the log has" />`}`}
    effect=${html`<p>In ${plural(mine.length, 'partition')} consumers of the group continue with ${to === 'start' ? 'the oldest record that there is: they read all of it again' : to === 'end' ? 'what is appended from now on: they skip what they have not read' : `offset ${text || '…'}`}. All or none are changed.</p>
      ${members > 0 && html`<p class="warn">The group has ${plural(members, 'member')}: stop them first. Offsets are set while nobody reads.</p>`}`}
    run=${async () => { const offsets = await plan(); await call('GroupService/SetGroupOffsets', { group: name, offsets }); return html`<ul>${offsets.slice(0, 12).map((o) => html`<li>${o.topic} ${o.partition} continues at ${count(int(o.offset))}</li>`)}</ul>` }} />`
}
