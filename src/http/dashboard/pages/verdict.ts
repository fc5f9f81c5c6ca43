import { describeError } from '../../../util/error-text.ts'
import type { DashboardData, RunOverview } from '../../../actions/dashboard-data.ts'
import { Run, readTotal } from '../../../domain/run.ts'
import type { OwnTrouble } from '../../../domain/trouble-facts.ts'
import { describeTrouble, type Trouble, type TroubleText, TROUBLES } from '../../../domain/trouble.ts'
import { isTransient } from '../../../store/connectivity.ts'
import { formatCount, listInWords, pluralize } from '../../../util/format.ts'
import { networkErrorCode, networkErrorMeaning } from '../../../util/network-errors.ts'
import { ratio, timeAgo, withCode, type Tone } from '../components.ts'
import { countRows } from '../funnel.ts'
import { type Html, html, livePart, type HtmlPart } from '../html.ts'
import { START_RUN } from './runs.ts'

/** Whether Fillrate works: each trouble with what it means and what to do, and below them what goes on. */
export function healthSection(data: DashboardData, canAct: boolean): Html {
  const { troubles, readAt: now } = data
  const notes = listNotes(data)
  const [tone, activity] = describeActivity(data)
  return verdictSection(
    troubles[0] === undefined ? (notes.length > 0 ? 'warn' : tone) : toTone(troubles[0]),
    html`${troubles.slice(0, MAX_SHOWN_TROUBLES).map((trouble) => troubleBlock(trouble, now))}
      ${troubles.slice(MAX_SHOWN_TROUBLES).map((trouble) => foldedTrouble(trouble, now))}
      <p class="${troubles.length > 0 ? 'activity' : 'headline'}">${activity}</p>
      ${
        notes.length > 0 &&
        html`<ul>
          ${notes.map((note) => html`<li>${note}</li>`)}
        </ul>`
      }
      ${canAct && html`<p class="actions">${START_RUN}</p>`}`,
  )
}

/** Troubles in full; each further one is a line that opens, so that the figures below stay in sight. */
const MAX_SHOWN_TROUBLES = 4

const foldedTrouble = (trouble: Trouble, now: number): Html => {
  const { title, meaning, action } = describeTrouble(trouble, now)
  return html`<details
    id="${`${trouble.code} ${trouble.subject}`.replaceAll(/\W+/g, '-')}"
    class="trouble folded ${toTone(trouble)}"
  >
    <summary>${title}</summary>
    ${troubleDetails({ meaning, action }, trouble.since, now)}
  </details>`
}

const verdictSection = (tone: string, body: Html): Html =>
  livePart(
    'verdict',
    html`<section id="verdict" class="verdict ${tone}" aria-label="Health">${body}</section>`,
  )

const toTone = ({ severity }: Pick<Trouble, 'severity'>): Tone => (severity === 'error' ? 'bad' : 'warn')

function troubleBlock(trouble: Omit<Trouble, 'endedAt'>, now: number): Html {
  const { title, meaning, action } = describeTrouble(trouble, now)
  return html`<div class="trouble ${toTone(trouble)}">
    <p class="headline">${title}</p>
    ${troubleDetails({ meaning, action }, trouble.since, now)}
  </div>`
}

const troubleDetails = (
  { meaning, action }: Pick<TroubleText, 'meaning' | 'action'>,
  since: Date,
  now: number,
): Html =>
  html`<p>${meaning} <span class="since">Began ${timeAgo(since, now)}.</span></p>
    <p class="action"><b>What to do:</b> ${withCode(action)}</p>`

/**
 * The verdict of a process that cannot read its data: Postgres is away, or its schema is missing. Null: the error has
 * another cause.
 * @param own what the process knows of it
 */
export function outageSection(error: unknown, own: readonly OwnTrouble[], now: number): Html | null {
  const trouble = findOutage(error, own)
  if (trouble === null) return null
  const { severity } = TROUBLES[trouble.code]
  return verdictSection(
    'bad outage',
    troubleBlock({ ...trouble, severity, since: new Date(now - trouble.forMs) }, now),
  )
}

/** SQLSTATEs of a table, column or schema that does not exist. */
const MISSING = new Set(['42P01', '42703', '3F000'])

/** The same in words, for a page that has nothing else to show. */
export function describeOutage(error: unknown, own: readonly OwnTrouble[], now: number): TroubleText | null {
  const trouble = findOutage(error, own)
  return trouble && describeTrouble(trouble, now)
}

/** What keeps a process from its data, as it has noticed it, or as the error says. */
function findOutage(error: unknown, own: readonly OwnTrouble[]): OwnTrouble | null {
  const code = MISSING.has(networkErrorCode(error) ?? '')
    ? 'schema_outdated'
    : isTransient(error)
      ? 'database_away'
      : null
  if (code === null) return null
  const noticed = own.find((one) => one.code === code)
  if (noticed !== undefined) return noticed
  const reason = networkErrorMeaning(networkErrorCode(error)) ?? describeError(error)
  const details = code === 'database_away' ? { reason } : {}
  return { code, subject: '', details, forMs: 0, seenAgoMs: 0 }
}

/** What needs no help, and must not be forgotten. */
function listNotes({ jobs, sources }: DashboardData): string[] {
  const inDoubt = jobs.find((group) => group.state === 'in_doubt')?.jobs ?? 0
  const paused = sources.filter((source) => source.pause !== null).map((source) => source.name)
  return [
    ...(inDoubt > 0
      ? [
          `${pluralize(inDoubt, 'job')} in doubt: the submission may have arrived, so it is not repeated before the deadline.`,
        ]
      : []),
    ...(paused.length > 0 ? [`Paused: ${paused.join(', ')}.`] : []),
  ]
}

function describeActivity(data: DashboardData): [Tone, HtmlPart] {
  const { runs, readAt: now } = data
  const live = runs.filter((run) => run.alive)
  // A run of live sync stays open for a while after each change.
  const working = live.filter((run) => run.options.follow !== true || (run.states?.waiting ?? 0) > 0)
  const [first] = working
  if (first !== undefined)
    return [
      'busy',
      working.length === 1 ? runningHeadline(first) : `${formatCount(working.length)} runs in progress.`,
    ]
  if (data.watched.length > 0)
    return ['good', html`Watching ${listInWords(data.watched)} for changes. ${lastRun(runs, now)}`]
  const last = lastRun(runs, now)
  return last === null ? ['quiet', 'No runs yet.'] : ['good', html`Idle. ${last}`]
}

const ENDED: Readonly<Record<string, string>> = {
  budget_reached: 'reached its budget',
  out_of_credits: 'stopped without credits',
}

/** The run that ended last, live sync apart. */
function lastRun(runs: readonly RunOverview[], now: number): Html | null {
  const last = runs.find((run) => !run.alive && run.options.follow !== true) ?? runs.find((run) => !run.alive)
  if (last === undefined) return null
  const enriched = readTotal(last.totals, 'rows', 'enriched')
  const picked = readTotal(last.totals, 'rows', 'picked')
  const did =
    enriched === null || picked === null
      ? ''
      : picked === 0
        ? last.state === Run.completed
          ? ' and found nothing to do'
          : ''
        : ` and enriched ${formatCount(enriched)} of ${pluralize(picked, 'row')}`
  const status = (last.totals as { status?: string } | null)?.status
  const ended = ENDED[status ?? ''] ?? last.state
  return html`<a href="/runs/${last.id}">Run ${last.id}</a> ${ended}
    ${timeAgo(last.finished_at ?? last.started_at, now)}${did}.`
}

function runningHeadline({ id, states }: RunOverview): Html {
  const rows = states === null ? 0 : countRows(states)
  const finished = rows - (states?.waiting ?? 0)
  return html`<a href="/runs/${id}">Run ${id}</a> is in progress: ${formatCount(finished)} of
    ${pluralize(rows, 'row')} finished (${Math.floor(ratio(finished, rows) * 100)}%).`
}
