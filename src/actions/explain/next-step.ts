import type { NextStep } from '../../domain/report/explain.ts'
import { Lookup } from '../../domain/lookup.ts'
import { Row, type RowState } from '../../domain/row.ts'
import type { RowEvaluation } from '../../sources/read-row.ts'
import type { JobHistory, LookupHistory, RowHistoryRow } from '../../store/row-history.ts'

export interface RowSituation {
  /** Null: it belongs to the source. */
  readonly exclusion: 'deleted' | 'joins' | 'where' | 'copies' | 'problem' | null
  /** At least one of its columns could be filled. */
  readonly hasBlanks: boolean
  /** Kind of the lookup that a run would request; null if no input is usable. */
  readonly lookupKind: string | null
  /** Its `freshness` column settles it: until when, and why. */
  readonly freshness?: { readonly until: Date; readonly reason: string } | null
  readonly isSuppressed: boolean
  /** The inputs have changed since the row was last picked. */
  readonly inputsChanged: boolean
  /** It had left the source when it was finished, and is back. */
  readonly isBack?: boolean
  /** The row was finished with another service than the configured one. */
  readonly isFromOtherService?: boolean
  readonly isUndone: boolean
  readonly row: Pick<RowHistoryRow, 'state' | 'run' | 'due_at'> | null
  readonly lookup: Pick<LookupHistory, 'state' | 'not_before' | 'reason' | 'run'> | null
  readonly job: Pick<JobHistory, 'state' | 'deadline_at'> | null
  /** The process of the run that holds it is alive. */
  readonly isRunAlive: boolean
}

/** Decides when and why a row is tried again, or what the user can do about it. Pure. */
export function decideNextStep(situation: RowSituation, now: number): NextStep {
  const { row, exclusion } = situation
  if (exclusion !== null) return { what: EXCLUSION_STEPS[exclusion], at: null }
  if (situation.isSuppressed)
    return { what: 'nothing: its identifier was erased and is never looked up again', at: null }
  if (row?.state === Row.waiting) return nextWhileWaiting(situation, now)
  if (!situation.hasBlanks)
    return { what: 'nothing: each of its columns holds a value that the policy protects', at: null }
  const { freshness = null } = situation
  if (freshness !== null)
    return { what: `counts as enriched, because ${freshness.reason}; eligible again`, at: freshness.until }
  if (row === null || situation.isBack || situation.inputsChanged || situation.isFromOtherService)
    return nextPick(situation)
  if (row.due_at !== null && row.due_at.getTime() <= now)
    return { what: `the next run picks it, because it is due${costNote(situation)}`, at: null }
  const { why: reason, todo } = NEXT_BY_STATE[situation.isUndone ? 'undone' : row.state]
  if (row.due_at !== null) return { what: reason, at: row.due_at }
  return { what: `nothing before its inputs change${todo}`, at: null }
}

const EXCLUSION_STEPS: Readonly<Record<NonNullable<RowSituation['exclusion']>, string>> = {
  deleted: 'nothing: the row no longer exists',
  joins: "nothing, while the source's joins return no row for it",
  where: "nothing, while the source's `where` excludes it",
  copies: 'a run stops at it: the joins must return one row per key',
  problem: 'a run stops at it until the expression or the row is corrected',
}

function nextPick({ row, lookupKind, inputsChanged, isBack }: RowSituation): NextStep {
  const otherCause = isBack ? 'it is in the source again' : 'it was finished with another service'
  const cause = inputsChanged ? 'its inputs have changed' : otherCause
  const reason = row === null ? '' : `, because ${cause}`
  if (lookupKind === null) return { what: `the next run finishes it as invalid input${reason}`, at: null }
  return { what: `the next run picks it${reason}, and looks it up by ${lookupKind}`, at: null }
}

/** A row that is due may be written from a stored record. */
const costNote = ({ lookup }: RowSituation): string =>
  lookup?.state === Lookup.found ? ': without a call if its record is still fresh' : ''

function nextWhileWaiting({ lookup, job, isRunAlive, row }: RowSituation, now: number): NextStep {
  const runName = isRunAlive ? `run ${row?.run}` : 'the next run, because its own has ended'
  if (lookup === null) return { what: `picked again by ${runName}`, at: null }
  switch (lookup.state) {
    case Lookup.pending: {
      const retryAt = ifFuture(lookup.not_before, now)
      const reason = retryAt === null || lookup.reason === null ? '' : ` (${lookup.reason})`
      return {
        what: `requested${lookup.reason === null ? '' : ' again'} by ${runName}${reason}`,
        at: retryAt,
      }
    }
    case Lookup.leased:
      return { what: 'its call is in flight', at: null }
    case Lookup.submitted:
      return {
        what: 'waits for the delivery of its job; without one it is requested by a single call',
        at: ifFuture(job?.deadline_at ?? null, now),
      }
    default:
      // A waiting row has this time only when its write was deferred.
      if (row?.due_at)
        return {
          what: 'answered: written once no other transaction has locked it',
          at: ifFuture(row.due_at, now),
        }
      return {
        what: 'answered: written by the next write-back, of a run or of `fillrate serve`',
        at: null,
      }
  }
}

/** A time in the past means due, and is not shown. */
const ifFuture = (at: Date | null, now: number): Date | null =>
  at !== null && at.getTime() > now ? at : null

const RETRY_HINT = ', or `fillrate retry` queues it'

/** By state: what happens at `due_at`, and what the user can do if there is none. */
const NEXT_BY_STATE: Readonly<Record<RowState | 'undone', { readonly why: string; readonly todo: string }>> =
  {
    waiting: { why: '', todo: '' },
    enriched: { why: 'looked up again, because its record is out of date by then', todo: '' },
    unchanged: { why: 'looked up again, because its record is out of date by then', todo: '' },
    undone: {
      why: 'looked up again, because its record is out of date by then; `fillrate retry --state undone` writes it before',
      todo: ', or `fillrate retry --state undone` queues it',
    },
    not_found: { why: 'looked up again, because the service may have a match by then', todo: '' },
    below_confidence: {
      why: 'looked up again, because its record is out of date by then; with a lower minConfidence, `fillrate remap` writes it',
      todo: '',
    },
    invalid_input: { why: 'checked again', todo: '' },
    rejected: { why: 'looked up again', todo: RETRY_HINT },
    suppressed: { why: 'checked again', todo: ': it was erased and is never requested again' },
    write_rejected: {
      why: 'looked up again, because its record is out of date by then; `fillrate retry` writes it again before',
      todo: RETRY_HINT,
    },
    failed: { why: 'looked up again; `fillrate retry` queues it now', todo: RETRY_HINT },
  }

/** What excludes a row from its source, in words; null if it belongs to it. */
export const describeExclusion = ({
  excluded_by: by,
  unmet_conditions: unmet,
}: {
  readonly excluded_by: RowEvaluation['leftOutBy']
  readonly unmet_conditions: readonly string[]
}): string | null =>
  by === null ? null : `excluded from the source by ${by === 'joins' ? 'its joins' : unmet.join(' and ')}`
