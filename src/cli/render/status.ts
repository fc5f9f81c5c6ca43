import type { Status } from '../../pipeline/status.ts'
import type { Coverage } from '../../sources/coverage.ts'
import type { KnownLimit } from '../../store/rate-limits.ts'
import type { Heard } from '../../store/rate-told.ts'
import type { Output } from '../output.ts'
import { bar } from './bar.ts'
import { fields, type Field } from './fields.ts'
import { limitText } from './limit.ts'
import { count, counted, distance, percent } from './numbers.ts'
import { toldFields } from './rate-told.ts'
import { rowLines } from './row-lines.ts'
import { stateWords } from './states.ts'
import { sum } from './sum.ts'
import { cut, pad, width } from './text.ts'

export interface StatusView {
  readonly status: Omit<Status, 'limit'>
  readonly limits: readonly (KnownLimit & { readonly scope: string })[]
  /** By scope, what the process that calls told last. */
  readonly told: ReadonlyMap<string, Heard>
  /** By source; a text says why it is not known. */
  readonly coverage: Readonly<Record<string, Coverage | string>>
}

/** How things stand: each source with its rows, whose states add up, and its columns; then jobs, runs and the limit. */
export function statusLines(
  { status, limits, told, coverage }: StatusView,
  output: Output,
  now: number,
): string[] {
  const names = Object.keys({ ...coverage, ...status.rows })
  return [
    ...names.flatMap((name) => [...sourceLines(name, status.rows[name], coverage[name], output), '']),
    ...(names.length === 0 ? ['No row was picked yet.', ''] : []),
    ...fields(
      [
        ...workFields(status, now),
        ...limits
          .slice(0, 3)
          .flatMap((limit) => [limitField(limit, now), ...toldFields(told.get(limit.scope), now)]),
      ],
      output,
    ),
  ]
}

function sourceLines(
  name: string,
  rows: Status['rows'][string] | undefined,
  coverage: Coverage | string | undefined,
  output: Output,
): string[] {
  const { paint } = output
  const lines = [paint('heading', name)]
  if (rows === undefined || rows.total === 0) lines.push(`  ${paint('quiet', 'no row was picked yet')}`)
  else lines.push(...rowLines({ ...rows, picked: rows.total }, output, 'ever picked'))
  if (typeof coverage === 'string') lines.push('', ...fields([['coverage', coverage]], output))
  else if (coverage !== undefined) lines.push('', ...coverageLines(coverage, output))
  return lines
}

const LONGEST_COLUMN = 32

/** Of the rows that belong to a source, how many have a value in each column. */
export function coverageLines({ eligible, columns }: Coverage, output: Output): string[] {
  const { paint } = output
  const names = Math.min(LONGEST_COLUMN, Math.max(...columns.map(({ column }) => width(column)), 8))
  const numbers = count(eligible).length
  const room = output.textColumns - names - numbers - 15
  return [
    `  ${paint('quiet', `coverage of ${counted(eligible, 'row')}`)}`,
    ...columns.map(({ column, filled }) => {
      const share = eligible === 0 ? 0 : filled / eligible
      const shown = room < 8 ? '' : `  ${bar(share, Math.min(30, room), paint)}`
      return `  ${pad(cut(column, names), names)}  ${count(filled).padStart(numbers)}  ${percent(share).padStart(6)}${shown}`
    }),
  ]
}

function workFields(
  { jobs, deliveries, live_runs: live, last_run: last }: StatusView['status'],
  now: number,
): Field[] {
  const ended =
    last === null ? 'none yet' : `run ${last.id}, ${last.state}, started ${distance(last.started_at, now)}`
  return [
    ['Runs', live > 0 ? `${count(live)} under way` : ended, live > 0 ? ended : (last?.reason ?? '')],
    ['Jobs', summed(jobs)],
    ['Deliveries', summed(deliveries)],
  ]
}

/** `31 = 28 completed + 3 failed`. */
function summed(states: Readonly<Partial<Record<string, number>>>): string {
  const numbers = Object.fromEntries(Object.entries(states).map(([state, n]) => [state, n ?? 0]))
  const all = Object.values(numbers).reduce((total, n) => total + n, 0)
  if (all === 0) return 'none'
  return `${count(all)} = ${sum(numbers, Object.fromEntries(Object.keys(numbers).map((state) => [state, stateWords(state)])), ' + ')}`
}

function limitField(
  { scope, limit, windowMs, observedAt }: StatusView['limits'][number],
  now: number,
): Field {
  const [host = scope, key] = scope.split(' ')
  const whose = key === undefined ? host : `${host}, key ${key}`
  return ['Limit', `${limitText(limit, windowMs)}, seen ${distance(new Date(observedAt), now)}`, whose]
}
