import type { FastifyInstance } from 'fastify'
import { listAuditEvents, type AuditEvent, type AuditOutcome } from '../../../store/audit.ts'
import type { SystemData } from '../../../actions/system-data.ts'
import type { Database } from '../../../store/open.ts'
import { formatCount, formatDuration } from '../../../util/format.ts'
import { badge, card, dataTable, empty, timeAgo, type Tone } from '../components.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import { parseId } from '../page.ts'

const DEFAULT_API_EVENTS = 50
const MAX_API_EVENTS = 1_000

/** Registers the whole audit list as JSON, in pages. Readers see it too: it changes nothing. */
export function registerAuditApi(server: FastifyInstance, db: Database): void {
  server.get<{ Querystring: { before?: string; limit?: string } }>('/api/audit', async (request, reply) => {
    const limit = Math.min(MAX_API_EVENTS, parseId(request.query.limit) ?? DEFAULT_API_EVENTS)
    const events = await listAuditEvents(db, parseId(request.query.before), limit)
    return reply.send({ events, next: events.length === limit ? (events.at(-1)?.id ?? null) : null })
  })
}

/** Who changed what lately. */
export const auditSection = ({ changes, readAt }: SystemData): Html =>
  card(
    'audit',
    'Who changed what',
    changes.length === 0 ? empty('Nothing was changed yet.') : auditTable(changes, readAt),
    html`<a href="/api/audit">All as JSON</a>`,
  )

const auditTable = (events: readonly AuditEvent[], now: number): Html =>
  dataTable<AuditEvent>(
    'The latest changes',
    [
      { name: 'action', kind: 'row', cell: ({ action }) => action },
      { name: 'when', cell: ({ at }) => timeAgo(at, now) },
      {
        name: 'who',
        cell: ({ actor, origin }) => html`${actor}<br /><span class="soft">${origin}</span>`,
      },
      { name: 'details', kind: 'text', cell: ({ parameters }) => describeParameters(parameters) },
      {
        name: 'outcome',
        kind: 'text',
        cell: ({ outcome, detail }) => [
          badge(outcome ?? 'under way', OUTCOME_TONES[outcome ?? 'open']),
          ' ',
          detail,
        ],
      },
      {
        name: 'run',
        cell: ({ run, request }) =>
          run === null
            ? request !== null && html`<a href="/requests/${request}">request</a>`
            : html`<a href="/runs/${run}">${run}</a>`,
      },
    ],
    events,
  )

/** Names of a list that are shown; `/api/audit` has all. */
const MAX_LISTED = 4

const OUTCOME_TONES: Readonly<Record<AuditOutcome | 'open', Tone>> = {
  done: 'good',
  interrupted: 'warn',
  failed: 'bad',
  open: 'busy',
}

/** The parameters that say something, the sources first. */
function describeParameters(parameters: AuditEvent['parameters']): HtmlPart {
  // jsonb keeps no order.
  const names = Object.keys(parameters).toSorted((a, b) => Number(b === 'sources') - Number(a === 'sources'))
  return names.map((name) => {
    const text = describeParameter(name, parameters[name])
    if (text === null) return null
    const label = name.replace(/_ms$/, '').replaceAll('_', ' ')
    return html`<span class="parameter"><span class="soft">${label}</span> ${text}</span> `
  })
}

function describeParameter(name: string, value: unknown): string | null {
  if (value === null || value === undefined || value === false) return null
  if (value === true) return 'yes'
  if (Array.isArray(value)) {
    if (value.length === 0) return 'all'
    return value.length > MAX_LISTED
      ? `${value.slice(0, MAX_LISTED).join(', ')} and ${value.length - MAX_LISTED} more`
      : value.join(', ')
  }
  if (typeof value === 'number') return name.endsWith('_ms') ? formatDuration(value) : formatCount(value)
  return typeof value === 'string' ? value : JSON.stringify(value)
}
