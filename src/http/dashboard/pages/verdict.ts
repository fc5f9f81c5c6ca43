import type { DashboardData, Verdict } from '../../../actions/dashboard-data.ts'
import { Run, readTotal } from '../../../domain/run.ts'
import type { OwnTrouble } from '../../../domain/trouble-facts.ts'
import { describeTrouble, type Trouble, type TroubleText } from '../../../domain/trouble.ts'
import { isTransient } from '../../../store/connectivity.ts'
import type { LivingRun } from '../../../store/runs.ts'
import { describeError } from '../../../util/error-text.ts'
import { formatCount, listInWords, pluralize } from '../../../util/format.ts'
import { networkErrorCode, networkErrorMeaning } from '../../../util/network-errors.ts'
import { ratio, timeAgo, withCode, type Tone } from '../components.ts'
import { type Html, html, type HtmlPart } from '../html.ts'
import { countRows } from '../row-states.ts'
import { START_RUN } from './runs.ts'

/** Whether Fillrate works: each trouble with what it means and what to do, and below them what goes on. */
export function healthSection(
  verdict: Verdict,
  counts: DashboardData,
  { canAct }: { readonly canAct: boolean },
): Html {
  const { troubles, paused, readAt: now } = verdict
  const [tone, activity] = describeActivity(verdict, counts)
  const [first] = troubles
  return html`<section
    id="verdict"
    class="verdict ${first !== undefined ? toTone(first) : paused.length > 0 ? 'warn' : tone}"
    aria-label="Health"
  >
    ${troubles.slice(0, MAX_SHOWN_TROUBLES).map((trouble) => troubleBlock(trouble, now, canAct))}
    ${troubles.slice(MAX_SHOWN_TROUBLES).map((trouble) => foldedTrouble(trouble, now, canAct))}
    <p class="${troubles.length > 0 ? 'activity' : 'headline'}">${activity}</p>
    ${paused.length > 0 && html`<p>Paused: ${paused.map(({ source }) => source).join(', ')}.</p>`}
    ${canAct && html`<p class="actions">${START_RUN}</p>`}
  </section>`
}

/** Troubles in full; each further one is a line that opens, so that the figures below stay in sight. */
const MAX_SHOWN_TROUBLES = 4

/** Troubles that a call to the service proves, or ends: `Try now` makes it. */
const TRIED = new Set<Trouble['code']>(['key_refused', 'out_of_credits', 'service_down', 'circuit_open'])

/** The trouble of a service; undefined: it has none. */
export const findServiceTrouble = (troubles: readonly Trouble[], host: string): Trouble | undefined =>
  troubles.find(({ code, subject }) => SERVICE_CODES.has(code) && subject.split(' ')[0] === host)

const SERVICE_CODES = new Set<Trouble['code']>([...TRIED, 'banned', 'shared_key', 'calls_waiting'])

/** The trouble of a source that does not fit its table, and is left out; undefined: it fits. */
export const findBreakage = (troubles: readonly Trouble[], source: string): Trouble | undefined =>
  troubles.find(({ code, subject }) => code === 'source_broken' && subject === source)

const foldedTrouble = (trouble: Trouble, now: number, canAct: boolean): Html =>
  html`<details
    id="${`${trouble.code} ${trouble.subject}`.replaceAll(/\W+/g, '-')}"
    class="trouble folded ${toTone(trouble)}"
  >
    <summary>${describeTrouble(trouble, now).title}</summary>
    ${troubleDetails(trouble, now, canAct)}
  </details>`

const toTone = ({ severity }: Pick<Trouble, 'severity'>): Tone => (severity === 'error' ? 'bad' : 'warn')

type ShownTrouble = Omit<Trouble, 'endedAt'>

const troubleBlock = (trouble: ShownTrouble, now: number, canAct: boolean): Html =>
  html`<div class="trouble ${toTone(trouble)}">
    <p class="headline">${describeTrouble(trouble, now).title}</p>
    ${troubleDetails(trouble, now, canAct)}
  </div>`

function troubleDetails(trouble: ShownTrouble, now: number, canAct: boolean): Html {
  const { meaning, action } = describeTrouble(trouble, now)
  const [host = ''] = trouble.subject.split(' ')
  return html`<p>${meaning} <span class="since">Began ${timeAgo(trouble.since, now)}.</span></p>
    <p class="action"><b>What to do:</b> ${withCode(action)}</p>
    ${canAct && TRIED.has(trouble.code) && html`<p class="actions">${tryLink(host)}</p>`}`
}

export const tryLink = (host: string): Html => html`<a class="button" href="${tryUrl(host)}">Try now</a>`

export const tryUrl = (host: string): string => `/services/${encodeURIComponent(host)}/try`

/** SQLSTATEs of a table or schema that does not exist. */
const MISSING = new Set(['42P01', '42703', '3F000'])

/**
 * What keeps a process from its data, in words: Postgres is away, or its schema is missing. Null: another cause.
 * @param own what the process knows of it
 */
export function describeOutage(error: unknown, own: readonly OwnTrouble[], now: number): TroubleText | null {
  const trouble = findOutage(error, own)
  return trouble && describeTrouble(trouble, now)
}

/** As the process has noticed it, or as the error says. Other missing names are those of the user's tables. */
function findOutage(error: unknown, own: readonly OwnTrouble[]): OwnTrouble | null {
  const isMissing = MISSING.has(networkErrorCode(error) ?? '')
  const code = isMissing ? 'schema_outdated' : isTransient(error) ? 'database_away' : null
  if (code === null) return null
  const noticed = own.find((one) => one.code === code)
  if (noticed !== undefined) return noticed
  if (isMissing && !/"fillrate[".]/.test(describeError(error))) return null
  const reason = networkErrorMeaning(networkErrorCode(error)) ?? describeError(error)
  const details = code === 'database_away' ? { reason } : {}
  return { code, subject: '', details, forMs: 0, seenAgoMs: 0 }
}

function describeActivity({ runs, watched, readAt: now }: Verdict, counts: DashboardData): [Tone, HtmlPart] {
  // A run of live sync stays open for a while after each change.
  const [first, ...others] = runs.filter((run) => run.alive && run.options.follow !== true)
  if (first !== undefined)
    return [
      'busy',
      others.length === 0
        ? runningHeadline(first, counts)
        : `${formatCount(others.length + 1)} runs in progress.`,
    ]
  if (watched.length > 0)
    return ['good', html`Watching ${listInWords(watched)} for changes. ${lastRun(runs, now)}`]
  const last = lastRun(runs, now)
  return last === null ? ['quiet', 'No runs yet.'] : ['good', html`Idle. ${last}`]
}

const ENDED: Readonly<Record<string, string>> = {
  budget_reached: 'reached its budget',
  out_of_credits: 'stopped without credits',
}

/** The run that ended last, live sync apart. */
function lastRun(runs: readonly LivingRun[], now: number): Html | null {
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

/** With its progress, once that was counted. */
function runningHeadline({ id, started_at: since }: LivingRun, { runs, readAt: now }: DashboardData): Html {
  const { states = null } = runs.find((run) => run.id === id) ?? {}
  const rows = states === null ? 0 : countRows(states)
  const finished = rows - (states?.waiting ?? 0)
  const percent = Math.floor(ratio(finished, rows) * 100)
  const progress = `${formatCount(finished)} of ${pluralize(rows, 'row')} finished (${percent}%)`
  return html`<a href="/runs/${id}">Run ${id}</a> is in
    progress${rows === 0 ? [', started ', timeAgo(since, now)] : `: ${progress}`}.`
}
