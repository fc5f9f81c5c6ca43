import { createHash } from 'node:crypto'
import { subscribe } from 'node:diagnostics_channel'
import { appendFileSync } from 'node:fs'
import pg from 'pg'

// Loaded into a real `fillrate` process before anything else (`node --import`). Every statement and every HTTP message
// passes here, just before it is sent and just after its answer arrives; at the requested one, the process kills itself
// with SIGKILL. The product contains nothing of this.

const {
  CHAOS_KILL_AT: killAt,
  CHAOS_KILL_NTH: nth = '1',
  CHAOS_KILL_AFTER: killAfter,
  CHAOS_RECORD: record,
} = process.env
const seen = new Map<string, number>()
let passed = 0

function pass(point: string): void {
  const times = (seen.get(point) ?? 0) + 1
  seen.set(point, times)
  if (record !== undefined) appendFileSync(record, `${point}\n`)
  passed += 1
  if ((point === killAt && times === Number(nth)) || passed === Number(killAfter))
    process.kill(process.pid, 'SIGKILL')
}

/** Names a statement: its verb, its table, and a hash that distinguishes it from similar ones. */
function nameStatement(text: string): string {
  const words = text.replaceAll(/\s+/g, ' ').trim()
  const hash = createHash('sha256').update(words).digest('hex').slice(0, 4)
  const table =
    /(?:update|insert into|delete from|from|lock table)\s+"?(?:fillrate|crm)"?\."?(\w+)/i.exec(words)?.[1] ??
    ''
  const verb =
    /\b(update|insert|delete|select|lock|set|savepoint|release|with)\b/i.exec(words)?.[1] ??
    words.slice(0, 20)
  // A statement with several parts is named by its first part.
  const part = /^with (?:recursive )?(\w+)/i.exec(words)?.[1] ?? ''
  return `${verb.toLowerCase()} ${part} ${table} ${hash}`.replaceAll(/\s+/g, ' ')
}

interface Client {
  query: (...args: unknown[]) => unknown
}
const client = pg.Client.prototype as unknown as Client & { chaosWrites?: string }
const { query } = client
client.query = function send(this: Client & { chaosWrites?: string }, ...args: unknown[]): unknown {
  const [first] = args
  const text =
    typeof first === 'string' ? first : String((first as { text?: string } | undefined)?.text ?? '')
  const lower = text.trim().toLowerCase()
  const isEnd = lower === 'commit' || lower === 'rollback'
  // A commit is named by the last write before it.
  const name = isEnd ? `${lower} (${this.chaosWrites ?? 'nothing'})` : nameStatement(text)
  if (lower.startsWith('begin')) this.chaosWrites = 'nothing'
  else if (/\b(update|insert|delete)\b/i.test(text)) this.chaosWrites = name
  pass(`before ${name}`)
  const result = query.apply(this, args)
  if (result instanceof Promise) return result.then((value: unknown) => (pass(`after ${name}`), value))
  return result
}

interface Request {
  readonly origin?: string | URL
  readonly method: string
  readonly path: string
}
/** Of several services each has its name, wherever it listens. */
const serviceNames = new Map(
  Object.entries(process.env).flatMap(([variable, url]) => {
    const [, name] = /^FILLRATE_(\w+)_BASE_URL$/.exec(variable) ?? []
    return name === undefined || url === undefined ? [] : [[new URL(url).origin, `${name} `] as const]
  }),
)
const http = (when: string, one: Request | undefined): void => {
  if (!one) return
  const service = serviceNames.get(String(one.origin)) ?? ''
  pass(`${when} ${service}${one.method} ${one.path.split('?')[0]}`)
}
const requestOf = (message: unknown): Request | undefined => (message as { request?: Request }).request
subscribe('undici:request:create', (message) => http('before', requestOf(message)))
subscribe('undici:request:bodySent', (message) => http('on the wire', requestOf(message)))
subscribe('undici:request:headers', (message) => http('after', requestOf(message)))

const isDelivery = (message: unknown): boolean => {
  const { url } = (message as { request: { url?: string } }).request
  return url?.startsWith('/webhooks') ?? false
}
subscribe('http.server.request.start', (message) => isDelivery(message) && pass('before delivery'))
subscribe('http.server.response.finish', (message) => isDelivery(message) && pass('after delivery'))
