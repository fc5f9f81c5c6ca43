import { describeError } from '../../../util/error-text.ts'
import type { DashboardData, RunOverview } from '../../../actions/dashboard-data.ts'
import { Run, readTotal } from '../../../domain/run.ts'
import {
  type Condition,
  type ConditionText,
  conditionId,
  describeCondition,
  type DatabaseOutage,
  SCHEMA_OUTDATED,
  severityOf,
  toOutageCondition,
} from '../../../domain/condition.ts'
import { isTransient } from '../../../store/connectivity.ts'
import { formatCount, listInWords, pluralize } from '../../../util/format.ts'
import { networkErrorCode, networkErrorMeaning } from '../../../util/network-errors.ts'
import { ratio, timeAgo, withCode, type Tone } from '../components.ts'
import { countRows } from '../funnel.ts'
import { type Html, html, livePart, type HtmlPart } from '../html.ts'
import { START_RUN } from './runs.ts'

/** Whether Fillrate works: each trouble with what it means and what to do, and below them what goes on. */
export function healthSection(data: DashboardData, canAct: boolean): Html {
  const { conditions: troubles, readAt: now } = data
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

const foldedTrouble = (trouble: Condition, now: number): Html => {
  const { title, meaning, mend } = describeCondition(trouble, now)
  return html`<details
    id="${conditionId(trouble).replaceAll(/\W+/g, '-')}"
    class="trouble folded ${toTone(trouble)}"
  >
    <summary>${title}</summary>
    ${troubleDetails({ meaning, mend }, trouble.since, now)}
  </details>`
}

const verdictSection = (tone: string, body: Html): Html =>
  livePart(
    'verdict',
    html`<section id="verdict" class="verdict ${tone}" aria-label="Health">${body}</section>`,
  )

const toTone = (condition: Condition): Tone => (severityOf(condition) === 'error' ? 'bad' : 'warn')

function troubleBlock(trouble: Condition, now: number): Html {
  const { title, meaning, mend } = describeCondition(trouble, now)
  return html`<div class="trouble ${toTone(trouble)}">
    <p class="headline">${title}</p>
    ${troubleDetails({ meaning, mend }, trouble.since, now)}
  </div>`
}

const troubleDetails = (
  { meaning, mend }: Pick<ConditionText, 'meaning' | 'mend'>,
  since: Date,
  now: number,
): Html =>
  html`<p>${meaning} <span class="since">Began ${timeAgo(since, now)}.</span></p>
    <p class="action"><b>What to do:</b> ${withCode(mend)}</p>`

/**
 * The verdict of a process that cannot read its data: Postgres is away, or its schema is missing. Null: the error has
 * another cause.
 * @param known what the process knows of it
 */
export function outageSection(error: unknown, known: DatabaseOutage | null, now: number): Html | null {
  const outage = findOutage(error, known)
  return outage && verdictSection('bad outage', troubleBlock(toOutageCondition(outage, now), now))
}

/** SQLSTATEs of a table, column or schema that does not exist. */
const MISSING = new Set(['42P01', '42703', '3F000'])

/** The same in words, for a page that has nothing else to show. */
export function describeOutage(
  error: unknown,
  known: DatabaseOutage | null,
  now: number,
): ConditionText | null {
  const outage = findOutage(error, known)
  return outage && describeCondition(toOutageCondition(outage, now), now)
}

/** What keeps a process from its data, as it has noticed it, or as the error says. */
function findOutage(error: unknown, known: DatabaseOutage | null): DatabaseOutage | null {
  if (MISSING.has(networkErrorCode(error) ?? '')) return { details: SCHEMA_OUTDATED, forMs: 0 }
  if (!isTransient(error)) return null
  const reason = networkErrorMeaning(networkErrorCode(error)) ?? describeError(error)
  return known ?? { details: { reason }, forMs: 0 }
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
