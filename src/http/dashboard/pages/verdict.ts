import type { ReportedCondition } from '../../../domain/report/status.ts'
import type { Verdict } from '../../../actions/dashboard-data.ts'
import {
  describeCondition,
  SCHEMA_OUTDATED,
  toOutageCondition,
  type ConditionKind,
  type ConditionText,
  type DatabaseOutage,
} from '../../../domain/condition.ts'
import { isTransient } from '../../../store/transaction.ts'
import { describeError } from '../../../util/error-text.ts'
import { networkErrorCode, networkErrorMeaning } from '../../../util/network-errors.ts'
import { timeAgo, withCode, type Tone } from '../components.ts'
import { html, type Markup } from '../html.ts'
import { START_RUN } from './runs.ts'

/** Whether Fillrate works: each condition with what it means and what to do. */
export const healthSection = ({ conditions, readAt }: Verdict, canAct: boolean): Markup =>
  html`<section
    id="verdict"
    class="verdict ${conditions[0] === undefined ? 'good' : toTone(conditions[0])}"
    aria-label="Health"
  >
    ${conditions.map((condition) => conditionBlock(condition, readAt, canAct))}
    ${conditions.length === 0 && html`<p class="headline">Nothing is wrong.</p>`}
    ${canAct && html`<p class="actions">${START_RUN}</p>`}
  </section>`

/** What a call to the service proves, or ends: `Try now` makes it. */
const TRIED: ReadonlySet<string> = new Set<ConditionKind>([
  'key_refused',
  'out_of_credits',
  'service_failing',
])

/** The condition of a service; undefined: it has none. */
export const findServiceCondition = (
  conditions: readonly ReportedCondition[],
  service: string,
): ReportedCondition | undefined =>
  conditions.find(
    (condition) =>
      condition.service === service && (TRIED.has(condition.kind) || condition.kind === 'throttled'),
  )

/** The condition of a source that does not fit its table, and is left out; undefined: it fits. */
export const findBreakage = (
  conditions: readonly ReportedCondition[],
  source: string,
): ReportedCondition | undefined =>
  conditions.find((condition) => condition.kind === 'source_broken' && condition.source === source)

const toTone = ({ severity }: ReportedCondition): Tone => (severity === 'error' ? 'bad' : 'warn')

function conditionBlock(condition: ReportedCondition, now: number, canAct: boolean): Markup {
  const { kind, service, since, title, meaning, mend, proof } = condition
  return html`<div class="condition ${toTone(condition)}">
    <p class="headline">${title}</p>
    <p>${meaning} <span class="since">Began ${timeAgo(since, now)}.</span></p>
    <p class="action">
      <b>What to do:</b> ${withCode(mend)} <span class="since">Prove it: ${withCode(proof)}.</span>
    </p>
    ${canAct && service !== null && TRIED.has(kind) && html`<p class="actions">${tryLink(service)}</p>`}
  </div>`
}

export const tryLink = (service: string): Markup =>
  html`<a class="button" href="${tryUrl(service)}">Try now</a>`

export const tryUrl = (service: string): string => `/services/${encodeURIComponent(service)}/try`

/** SQLSTATEs of a table or schema that does not exist. */
const MISSING = new Set(['42P01', '42703', '3F000'])

/**
 * What keeps a process from its data, in words: Postgres is away, or its schema is missing. Null: another cause.
 * @param known what the process knows of it
 */
export function describeOutage(
  error: unknown,
  known: DatabaseOutage | null,
  now: number,
): ConditionText | null {
  const outage = findOutage(error, known)
  return outage && describeCondition(toOutageCondition(outage, now), now)
}

/** As the process has noticed it, or as the error says. Other missing names are those of the user's tables. */
function findOutage(error: unknown, known: DatabaseOutage | null): DatabaseOutage | null {
  if (MISSING.has(networkErrorCode(error) ?? ''))
    return known !== null || /[^\w.]fillrate\b/.test(describeError(error))
      ? { details: SCHEMA_OUTDATED, forMs: 0 }
      : null
  if (!isTransient(error)) return null
  const reason = networkErrorMeaning(networkErrorCode(error)) ?? describeError(error)
  return known ?? { details: { reason }, forMs: 0 }
}
