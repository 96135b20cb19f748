// Who may do what: grants, tokens and users, and a question about one object.

import { html, useState } from './vendor/preact.js'
import { call } from './api.js'
import { bytes, count, parseSpan, quote, span } from './format.js'
import { Action, Command, Copy, Empty, Field, State, Time, useEvery, Wrong } from './parts.js'
import { may, useCluster } from './state.js'

const rightsOn = {
  log: ['append', 'read', 'trim', 'configure', 'create', 'delete', 'observe'],
  group: ['read', 'delete', 'observe'],
  cluster: ['create', 'delete', 'observe', 'administer'],
}
const kindOf = (object) => object.split('/')[0]
const rightsText = (rights) => rights.join(', ')

// grantedOn returns what a grant gives on an object, as internal/cluster/access decides it.
function grantedOn(grant, object) {
  const { object: on, rights } = grant
  if (on === 'cluster') {
    if (rights.includes('administer')) return ['everything']
    return rights.filter((r) => rightsOn[kindOf(object)]?.includes(r))
  }
  const covers = on === object || (on.endsWith('*') && object.startsWith(on.slice(0, -1)))
  return covers ? [...new Set([...rights, 'observe'])] : []
}

export function Access() {
  const cluster = useCluster()
  const me = cluster.me
  const [got, setGot] = useState({})
  const [again, setAgain] = useState(0)
  const refresh = () => setAgain((n) => n + 1)
  const admin = may('administer')
  useEvery(10, async (signal) => {
    if (!admin) return
    try {
      const [grants, tokens, users, quotas] = await Promise.all([call('AccessService/ListGrants', {}, signal), call('AccessService/ListAccessTokens', {}, signal), call('AccessService/ListUsers', {}, signal), call('AccessService/ListQuotas', {}, signal)])
      setGot({ grants: grants.grants, enforced: grants.enforced, tokens: tokens.tokens, users: users.users, quotas })
    } catch (failure) {
      if (!signal.aborted) setGot((g) => ({ ...g, failure }))
    }
  }, [again, admin], true)
  return html`
    <div class="title"><h1>Access</h1>${me.enforced ? html`<${State} kind="good">rights are enforced<//>` : html`<${State} kind="warn">rights are not enforced: whoever reaches a node may do everything<//>`}
      <span class="aside">${admin && got.grants && html`<${Enforce} enforced=${me.enforced} grants=${got.grants} />`}</span></div>
    <section><div class="section-head"><h2>You</h2></div>
      <p>${me.principal ? html`<b>${me.principal}</b>, ${me.tokenId ? html`by the token <code>${me.tokenId}</code>` : 'by a certificate'}` : 'You have not said who you are, and need not.'}</p>
      ${me.enforced && (me.rights.length ? html`<table class="narrow-table"><thead><tr><th>On</th><th>You may</th></tr></thead><tbody>${me.rights.map((r) => html`<tr><td class="mono break">${r.object}</td><td>${r.rights.includes('administer') ? 'everything' : rightsText(r.rights)}</td></tr>`)}</tbody></table>${me.moreRights && html`<p class="quiet">The first ${count(me.rights.length)}: you have rights on more objects.</p>`}` : html`<p>You may do nothing yet. An administrator grants rights:</p><${Command} text=${`strandline grant add ${me.principal} read,observe 'log/*'`} />`)}
    </section>
    ${!admin ? html`<section><${Empty} title="Users, tokens and grants are for administrators."><p class="quiet">They need the right to administer the cluster.</p><//></section>` : html`
      <${Wrong} failure=${got.failure?.status ? got.failure : undefined} />
      ${got.grants && html`<${Question} grants=${got.grants} /><${Grants} grants=${got.grants} after=${refresh} /><div class="columns"><${Tokens} tokens=${got.tokens} after=${refresh} /><${Users} users=${got.users} after=${refresh} /></div><${Quotas} ...${got.quotas} after=${refresh} />`}`}`
}

function Enforce({ enforced, grants }) {
  const [who, setWho] = useState('user/admin')
  const there = grants.some((g) => g.object === 'cluster' && g.rights.includes('administer'))
  if (enforced) {
    return html`<${Action} label="Stop enforcing …" title="Stop enforcing rights" danger confirm="everybody" command="strandline grant enforce --off"
      effect=${html`<p>Whoever reaches a node may do <b>everything</b> from then on: read, append, delete, administer. Grants stay for later.</p>`}
      run=${async () => { await call('AccessService/EnforceRights', { enforced: false }) }} />`
  }
  return html`<${Action} label="Enforce rights …" title="Enforce rights" danger command=${`strandline grant enforce --administrator ${quote(who)}`} ready=${/^(user|node)\/\S+$/.test(who)}
    fields=${html`<${Field} label="Administrator" value=${who} set=${setWho} hint="gets the right to administer in the same change" data-first />`}
    effect=${html`<p>What is not granted is refused from then on, on all ports. ${there ? '' : 'Nobody may administer yet: '}${who} must have a certificate or a token, or you lock yourself out.</p>`}
    run=${async () => { await call('AccessService/EnforceRights', { enforced: true, administrator: who }); return 'Enforced. Reload this page, and sign in.' }} />`
}

function Question({ grants }) {
  const cluster = useCluster()
  const [text, setText] = useState('')
  const object = text.includes('/') || text === 'cluster' ? text : `log/${text}`
  const found = text ? grants.map((g) => ({ ...g, gives: grantedOn(g, object) })).filter((g) => g.gives.length) : []
  return html`<section><div class="section-head"><h2>Who may do what on …</h2></div>
    <div class="filters"><${Field} label="A log, group/NAME or cluster" value=${text} set=${setText} placeholder="orders" list="access-logs" data-search /></div>
    <datalist id="access-logs">${[...cluster.logs.keys()].slice(0, 200).map((n) => html`<option value=${n} />`)}</datalist>
    ${text && (found.length ? html`<table class="stack"><thead><tr><th>Who</th><th>May</th><th>By the grant on</th></tr></thead><tbody>${found.map((g) => html`<tr><td data-label="Who">${g.principal === '*' ? 'everybody who is known' : g.principal}</td><td data-label="May">${rightsText(g.gives)}</td><td data-label="By the grant on" class="mono break">${g.object}</td></tr>`)}</tbody></table><p class="quiet">Nodes of the cluster may do everything. A token may leave its user less.</p>` : html`<p class="quiet">Nobody but the nodes of the cluster.</p>`)}
  </section>`
}

function Grants({ grants, after }) {
  return html`<section><div class="section-head"><h2>Grants</h2><span class="aside"><${Grant} after=${after} /></span></div>
    ${grants.length === 0 ? html`<p class="quiet">Nothing is granted. A grant gives a user rights on a log, on all logs whose names begin alike, on a consumer group or on the cluster.</p>` : html`<table class="stack"><thead><tr><th>Principal</th><th>Object</th><th>Rights</th><th></th></tr></thead><tbody>
    ${grants.slice(0, 500).map((g) => html`<tr key=${g.principal + ' ' + g.object}><td data-label="Principal" class="break"><b>${g.principal}</b></td><td data-label="Object" class="mono break">${g.object}</td><td data-label="Rights">${rightsText(g.rights)}</td>
      <td class="act"><${Action} label="Remove …" title="Remove a grant" danger after=${after} command=${`strandline grant remove ${quote(g.principal)} ${g.rights.join(',')} ${quote(g.object)}`}
        effect=${html`<p>${g.principal} loses ${rightsText(g.rights)} on <code>${g.object}</code>, within a second on all nodes, and open reads end. What follows from other grants stays.</p>`}
        run=${async () => { await call('AccessService/RemoveGrants', { grants: [g] }) }} /></td></tr>`)}</tbody></table>`}
    ${grants.length > 500 && html`<p class="quiet">The first 500 of ${grants.length}.</p>`}</section>`
}

function Grant({ after }) {
  const [who, setWho] = useState('user/')
  const [object, setObject] = useState('log/')
  const [rights, setRights] = useState(['read'])
  const there = rightsOn[kindOf(object)] || []
  const chosen = rights.filter((r) => there.includes(r))
  const wrong = { who: who === '*' || /^(user|node)\/[A-Za-z0-9._-]*$/.test(who) ? '' : 'user/NAME, node/NAME or *', object: object === 'cluster' || /^(log|group)\/\S*$/.test(object) ? '' : 'cluster, log/NAME, log/PREFIX*, group/NAME or group/PREFIX*' }
  const ready = !wrong.who && !wrong.object && chosen.length > 0 && !/\/$/.test(who) && !/\/$/.test(object)
  return html`<${Action} label="Grant …" title="Grant rights" after=${after} ready=${ready} command=${`strandline grant add ${quote(who)} ${chosen.join(',') || 'RIGHTS'} ${quote(object)}`}
    fields=${html`<div class="pair"><${Field} label="To" value=${who} set=${setWho} wrong=${wrong.who} data-first /><${Field} label="On" value=${object} set=${setObject} wrong=${wrong.object} hint="log/orders* is all whose names begin so" /></div>
      <fieldset><legend>Rights</legend>${there.map((r) => html`<label class="check"><input type="checkbox" checked=${rights.includes(r)} onChange=${() => setRights(rights.includes(r) ? rights.filter((x) => x !== r) : [...rights, r])} />${r}</label>`)}</fieldset>`}
    effect=${html`<p>${who} may ${rightsText(chosen) || '…'} on <code>${object}</code>${chosen.includes('administer') ? html`: <b>everything in the cluster</b>, grants included` : ''}.</p>`}
    run=${async () => { await call('AccessService/AddGrants', { grants: [{ principal: who, object, rights: chosen }] }) }} />`
}

const limits = { appendBytes: ['append-bytes', 'appended'], readBytes: ['read-bytes', 'read'], requests: ['requests', 'requests'], streams: ['streams', 'streams'], connections: ['connections', 'connections'] }
const amount = (limit, n) => (limit.endsWith('ytes') ? `${bytes(n)}/s` : limit === 'requests' ? `${count(n)}/s` : count(n))

// Quotas shows the quotas, and on the node that answers who takes how much of them and who waits.
function Quotas({ quotas, node, uses, after }) {
  return html`<section><div class="section-head"><h2>Quotas</h2><span class="aside"><${Quota} after=${after} /></span></div>
    ${quotas.length === 0 ? html`<p class="quiet">There are none: each user takes as much as there is. A quota limits the bytes and requests in a second, the streams and the connections of a user, on each node.</p>` : html`<table class="stack"><thead><tr><th>Subject</th><th>Limits</th><th></th></tr></thead><tbody>
    ${quotas.slice(0, 200).map((q) => html`<tr key=${q.subject}><td data-label="Subject" class="mono break">${q.subject}</td><td data-label="Limits">${Object.keys(limits).filter((l) => Number(q[l])).map((l) => `${limits[l][1]} ${amount(l, Number(q[l]))}`).join(', ') || 'none'}</td>
      <td class="act"><${Action} label="Remove …" title="Remove a quota" danger after=${after} command=${`strandline quota remove ${quote(q.subject)}`}
        effect=${html`<p><code>${q.subject}</code> is limited by the common quota alone, if there is one, within a second on all nodes.</p>`}
        run=${async () => { await call('AccessService/RemoveQuota', { subject: q.subject }) }} /></td></tr>`)}</tbody></table>`}
    ${uses.length > 0 && html`<h3>Who takes how much on node ${node}</h3><table class="stack"><thead><tr><th>Subject</th><th>Of</th><th>Takes</th><th>Waits</th></tr></thead><tbody>
    ${uses.slice(0, 50).map((u) => html`<tr key=${u.subject + u.limit}><td data-label="Subject" class="mono break">${u.subject}</td><td data-label="Of">${u.limit.replace('_', ' ')}</td><td data-label="Takes">${amount(u.limit, Number(u.taken))}</td><td data-label="Waits">${parseFloat(u.wait) > 0 || Number(u.waiting) > 0 ? html`<${State} kind="warn">${span(parseFloat(u.wait))}${Number(u.waiting) > 0 ? `, ${count(Number(u.waiting))} waiting` : ''}<//>` : 'no'}</td></tr>`)}</tbody></table>`}</section>`
}

function Quota({ after }) {
  const [subject, setSubject] = useState('user/')
  const [limit, setLimit] = useState('appendBytes')
  const [most, setMost] = useState('10485760')
  const wrong = { subject: subject === '*' || /^(user\/[A-Za-z0-9._-]*|log\/\S*)$/.test(subject) ? '' : 'user/NAME, *, log/NAME or log/*', most: /^[1-9]\d{0,17}$/.test(most) ? '' : 'a number above 0' }
  const ready = !wrong.subject && !wrong.most && !/\/$/.test(subject)
  return html`<${Action} label="Set …" title="Set a quota" after=${after} ready=${ready} command=${`strandline quota set ${quote(subject)} --${limits[limit][0]} ${most}`}
    fields=${html`<div class="pair"><${Field} label="Of" value=${subject} set=${setSubject} wrong=${wrong.subject} hint="* is each user without one" data-first /><${Field} label="At most" value=${most} set=${setMost} wrong=${wrong.most} /></div>
      <fieldset><legend>Limit</legend>${Object.keys(limits).map((l) => html`<label class="check"><input type="radio" name="limit" checked=${limit === l} onChange=${() => setLimit(l)} />${limits[l][0]}</label>`)}</fieldset>`}
    effect=${html`<p><code>${subject}</code> takes at most ${wrong.most ? '…' : amount(limit, Number(most))} (${limits[limit][1]}) on each node. Whoever takes more waits. This is its whole quota: other limits that it has go.</p>`}
    run=${async () => { await call('AccessService/SetQuota', { quota: { subject, [limit]: most } }) }} />`
}

function Tokens({ tokens, after }) {
  return html`<section><div class="section-head"><h2>Access tokens</h2><span class="aside"><${Token} after=${after} /></span></div>
    ${tokens.length === 0 ? html`<p class="quiet">There are none. With a token a client, or this console, acts for a user without a certificate.</p>` : html`<table class="stack"><thead><tr><th>Token</th><th>Acts for</th><th>Expires</th><th></th></tr></thead><tbody>
    ${tokens.slice(0, 200).map((t) => html`<tr key=${t.id}><td data-label="Token" class="mono">${t.id}</td><td data-label="Acts for" class="break">${t.principal}${t.scope.length ? html`<br /><span class="quiet">${t.scope.map((s) => `${s.rights.join(',')} ${s.object}`).join('; ')}</span>` : ''}</td><td data-label="Expires"><${Time} at=${t.expires} /></td>
      <td class="act"><${Action} label="Revoke …" title=${`Revoke the token ${t.id}`} danger after=${after} command=${`strandline token revoke ${t.id}`}
        effect=${html`<p>Whoever uses it is refused within a second, on all nodes, and its streams end. There is no way back; create the next one first.</p>`}
        run=${async () => { await call('AccessService/RevokeAccessToken', { id: t.id }) }} /></td></tr>`)}</tbody></table>`}</section>`
}

function Token({ after }) {
  const [user, setUser] = useState('')
  const [life, setLife] = useState('30d')
  const s = parseSpan(life)
  const wrong = { user: user && !/^[A-Za-z0-9._-]{1,63}$/.test(user) ? 'letters, digits, . _ and - only' : '', life: !(s >= 1 && s <= 366 * 86400) ? '1s to 366d' : '' }
  return html`<${Action} label="Create …" title="Create an access token" after=${after} ready=${user && !wrong.user && !wrong.life} command=${`strandline token create ${quote(user || 'USER')} --expires ${life}`}
    fields=${html`<div class="pair"><${Field} label="Acts for the user" value=${user} set=${setUser} wrong=${wrong.user} data-first /><${Field} label="Expires in" value=${life} set=${setLife} wrong=${wrong.life} /></div>`}
    effect=${html`<p>Whoever has it may do what user/${user || '…'} may${wrong.life ? '' : `, for ${span(s)}`}. It is shown once and kept nowhere.</p>`}
    run=${async () => {
      const { token } = await call('AccessService/CreateAccessToken', { user, lifetime: `${s}s` })
      return html`<p>Copy it now: it is not shown again.</p><div class="command"><code>${token}</code><${Copy} text=${token} /></div>`
    }} />`
}

function Users({ users, after }) {
  return html`<section><div class="section-head"><h2>Users with a password</h2><span class="aside"><${User} after=${after} /></span></div>
    ${users.length === 0 ? html`<p class="quiet">There are none. A password is for Kafka's clients (SASL); all others use a certificate or a token.</p>` : html`<table class="stack"><thead><tr><th>User</th><th>Since</th><th></th></tr></thead><tbody>
    ${users.slice(0, 200).map((u) => html`<tr key=${u.name}><td data-label="User" class="break"><b>${u.name}</b></td><td data-label="Since"><${Time} at=${u.created} /></td>
      <td class="act"><${Action} label="Remove …" title=${`Remove ${u.name}`} danger confirm=${u.name} after=${after} command=${`strandline user remove ${quote(u.name)}`}
        effect=${html`<p>Removes the password, all tokens and all grants of user/${u.name}. Its connections end within a second. Its certificate stays valid, without rights.</p>`}
        run=${async () => { await call('AccessService/RemoveUser', { name: u.name }) }} /></td></tr>`)}</tbody></table>`}</section>`
}

function User({ after }) {
  const [name, setName] = useState('')
  const wrong = name && !/^[A-Za-z0-9._-]{1,63}$/.test(name) ? 'letters, digits, . _ and - only' : ''
  return html`<${Action} label="Add …" title="Add a user with a password" after=${after} ready=${name && !wrong} command=${`strandline user add ${quote(name || 'NAME')}`}
    fields=${html`<${Field} label="Name" value=${name} set=${setName} wrong=${wrong} data-first />`}
    effect=${html`<p>The node makes up a password, shows it once, and keeps what verifies it. If the user is there, it gets a new password, and connections with the old one end.</p>`}
    run=${async () => {
      const { password, existed } = await call('AccessService/PutUser', { name })
      return html`<p>${existed ? `${name} has a new password.` : `${name} was added.`} It is not shown again:</p><div class="command"><code>${password}</code><${Copy} text=${password} /></div>`
    }} />`
}
