// Numbers, sizes and times as text.

const group = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

// int returns a number that the API sends as text, or undefined.
export const int = (text) => (text === undefined || text === null || text === '' ? undefined : Number(text))

// count returns a whole number with separators; null and undefined are unknown.
export const count = (n) => (n === undefined || n === null || Number.isNaN(n) ? '–' : group.format(n))

// plural returns a number with its noun.
export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

// bytes returns a size with three digits.
export function bytes(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return '–'
  let unit = 0
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1024
    unit++
  }
  return `${unit === 0 ? Math.round(n) : digits(n)} ${units[unit]}`
}

// digits returns a number with about three digits.
export const digits = (n) => (n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2))

// rate returns a number per second; nothing happens at 0.
export function rate(n, unit = '') {
  if (n === undefined || n === null) return '–'
  if (n === 0) return '0'
  if (unit === 'B') return bytes(n) + '/s'
  if (n < 0.1) return '<0.1/s'
  return (n >= 10000 ? digits(n / 1000) + 'k' : n >= 100 ? count(n) : digits(n)) + '/s'
}

// seconds returns a time span as it is measured: microseconds to seconds.
export function seconds(s) {
  if (s === undefined || s === null || !Number.isFinite(s)) return '–'
  if (s < 1e-3) return `${digits(s * 1e6)} µs`
  if (s < 1) return `${digits(s * 1e3)} ms`
  return `${digits(s)} s`
}

// span returns a time span for people: 3 d 4 h.
export function span(s) {
  if (s === undefined || s === null) return '–'
  s = Math.max(0, Math.round(s))
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]
  const out = []
  for (const [size, name] of parts) {
    if (s >= size && out.length < 2) {
      out.push(`${Math.floor(s / size)} ${name}`)
      s %= size
    } else if (out.length) break
  }
  return out.join(' ') || '0 s'
}

// duration returns the seconds of a duration of the API, such as "1.5s".
export const duration = (text) => (text ? Number(text.slice(0, -1)) : undefined)

// settingSpan returns a retention as the command line takes it, exactly: 7d, 90m, 45s.
export function settingSpan(s) {
  for (const [size, name] of [[86400, 'd'], [3600, 'h'], [60, 'm']]) if (s && s % size === 0) return s / size + name
  return s + 's'
}

// parseSpan returns the seconds of 7d, 12h, 30m or 45s, 0 for nothing, or NaN.
export function parseSpan(text) {
  text = text.trim()
  if (text === '' || text === '0') return 0
  const found = /^(\d+(?:\.\d+)?)\s*(d|h|m|s)$/.exec(text)
  return found ? Number(found[1]) * { d: 86400, h: 3600, m: 60, s: 1 }[found[2]] : NaN
}

// parseBytes returns the bytes of 10GiB or 4096, 0 for nothing, or NaN.
export function parseBytes(text) {
  text = text.trim()
  if (text === '') return 0
  const found = /^(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|TiB)?$/i.exec(text)
  if (!found) return NaN
  const unit = (found[2] || 'B').toLowerCase()
  return Math.round(Number(found[1]) * 1024 ** ['b', 'kib', 'mib', 'gib', 'tib'].indexOf(unit))
}

// settingBytes returns a size as the command line takes it, exactly.
export function settingBytes(n) {
  let unit = 0
  while (n >= 1024 && n % 1024 === 0 && unit < 4) {
    n /= 1024
    unit++
  }
  return unit === 0 ? String(n) : n + units[unit]
}

const two = (n) => String(n).padStart(2, '0')

// clock returns the time of day: hours, minutes, seconds.
export const clock = (d, utc) => (utc
  ? `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`
  : `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`)

// day returns the date.
export const day = (d, utc) => (utc
  ? `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`
  : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`)

// zone returns the local zone as an offset, such as +01:00.
export function zone(d) {
  const minutes = -d.getTimezoneOffset()
  return `${minutes < 0 ? '-' : '+'}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`
}

// bothZones returns a moment in the local zone and in UTC.
export function bothZones(d) {
  return { local: `${day(d)} ${clock(d)} ${zone(d)}`, utc: `${day(d, true)} ${clock(d, true)}Z` }
}

// decode returns the bytes of base64; encode is its inverse.
export const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0))

export function encode(raw) {
  let text = ''
  for (let at = 0; at < raw.length; at += 0x8000) text += String.fromCharCode(...raw.subarray(at, at + 0x8000))
  return btoa(text)
}

const utf8 = new TextDecoder('utf-8', { fatal: true })
const encoder = new TextEncoder()

export const toBytes = (text) => encoder.encode(text)

// asText returns bytes as text, or undefined where they are not UTF-8 or hold control characters.
export function asText(raw) {
  try {
    const text = utf8.decode(raw)
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

// indented returns text over lines if it is JSON of an object or array, and otherwise undefined. Names and values stay as they are
// written: a parsed 9007199254740993 would be another number.
export function indented(text) {
  if (text === undefined || !/^\s*[[{]/.test(text)) return undefined
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  let out = ''
  let depth = 0
  let empty = false // what was opened last has nothing in it so far
  const line = () => '\n' + '  '.repeat(Math.min(depth, 40))
  for (let at = 0; at < text.length; at++) {
    const c = text[at]
    if (/\s/.test(c)) continue
    if (c === '}' || c === ']') {
      depth--
      out += empty ? c : line() + c
      empty = false
      continue
    }
    if (empty) out += line()
    empty = c === '{' || c === '['
    if (empty) depth++
    if (c === '"') {
      const from = at
      while (text[++at] !== '"') if (text[at] === '\\') at++
      out += text.slice(from, at + 1)
    } else out += c === ',' ? c + line() : c === ':' ? ': ' : c
  }
  return out
}

// hex returns bytes as lines of offset, sixteen bytes and their characters.
export function hex(raw, most = 64 << 10) {
  const lines = []
  for (let at = 0; at < raw.length && at < most; at += 16) {
    const row = raw.subarray(at, Math.min(at + 16, raw.length))
    const cells = Array.from(row, (b) => b.toString(16).padStart(2, '0'))
    const shown = Array.from(row, (b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : '·')).join('')
    lines.push(`${at.toString(16).padStart(8, '0')}  ${cells.slice(0, 8).join(' ').padEnd(23)}  ${cells.slice(8).join(' ').padEnd(23)}  ${shown}`)
  }
  if (raw.length > most) lines.push(`… ${bytes(raw.length - most)} more`)
  return lines.join('\n')
}

// quote returns an argument for a shell.
export const quote = (text) => (/^[A-Za-z0-9_.,:/=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)
