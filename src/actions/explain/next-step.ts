import { Lookup } from '../../domain/lookup.ts'
import { Row, type RowState } from '../../domain/row.ts'
import type { JobHistory, LookupHistory, RowHistoryRow } from '../../store/row-history.ts'

/** What comes next for a row, and when; null: whenever a run comes by, or never. */
export interface NextStep {
  readonly description: string
  readonly at: Date | null
}

export interface RowSituation {
  /** Null: it belongs to the source. */
  readonly outside: 'deleted' | 'joins' | 'where' | 'copies' | 'problem' | null
  /** A column of it could be filled. */
  readonly lacks: boolean
  /** What a run would ask, in words; null where no input is usable. */
  readonly question: string | null
  readonly suppressed: boolean
  /** Its inputs are not those that it was last picked with. */
  readonly inputsChanged: boolean
  /** Another service than the configured one has settled it. */
  readonly settledByAnother?: boolean
  readonly undone: boolean
  readonly row: Pick<RowHistoryRow, 'state' | 'dry' | 'run' | 'due_at'> | null
  readonly lookup: Pick<LookupHistory, 'state' | 'not_before' | 'reason' | 'run'> | null
  readonly job: Pick<JobHistory, 'state' | 'deadline_at'> | null
  /** The process of the run that holds it is alive. */
  readonly alive: boolean
}

/** When a row is tried again, and why, or what somebody can do about it. Pure. */
export function decideNextStep(situation: RowSituation, now: number): NextStep {
  const { row, outside } = situation
  if (outside !== null) return { description: EXCLUSION_STEPS[outside], at: null }
  if (row?.state === Row.waiting) return nextWhileWaiting(situation, now)
  if (!situation.lacks)
    return { description: 'nothing: each of its columns holds a value that the policy keeps', at: null }
  if (row === null || situation.inputsChanged || situation.settledByAnother) return nextPick(situation)
  if (row.due_at !== null && row.due_at.getTime() <= now)
    return { description: `the next run picks it, because it is due${costNote(situation)}`, at: null }
  const { why, todo } = NEXT_BY_STATE[situation.undone ? 'undone' : row.state]
  if (row.due_at !== null) return { description: why, at: row.due_at }
  return { description: `nothing before its inputs change${todo}`, at: null }
}

const EXCLUSION_STEPS: Readonly<Record<NonNullable<RowSituation['outside']>, string>> = {
  deleted: 'nothing: the row is no more',
  joins: "nothing, while the source's joins give no row for it",
  where: "nothing, while the source's `where` leaves it out",
  copies: 'a run stops at it: the joins must give one row for each key',
  problem: 'a run stops at it, until the expression or the row is corrected',
}

function nextPick({ row, question, suppressed, inputsChanged }: RowSituation): NextStep {
  const reason = inputsChanged ? 'its inputs have changed' : 'another service has settled it'
  const why = row === null ? '' : `, because ${reason}`
  if (question === null) return { description: `the next run settles it as invalid_input${why}`, at: null }
  if (suppressed)
    return { description: 'nothing: what it would ask was erased, and is never asked again', at: null }
  return { description: `the next run picks it${why}, and asks by ${question}`, at: null }
}

/** A row that is due may be written from a stored answer. */
const costNote = ({ lookup }: RowSituation): string =>
  lookup?.state === Lookup.found ? ': without a call where its answer is still fresh' : ''

function nextWhileWaiting({ lookup, job, alive, row }: RowSituation, now: number): NextStep {
  if (row?.dry === true && !alive)
    return { description: 'a dry run has picked it, which writes nothing: the next run takes it', at: null }
  const whose = alive ? `run ${row?.run}` : 'the next run, because its own has ended'
  if (lookup === null) return { description: `picked again by ${whose}`, at: null }
  switch (lookup.state) {
    case Lookup.pending: {
      const later = ifFuture(lookup.not_before, now)
      const why = later === null || lookup.reason === null ? '' : ` (${lookup.reason})`
      return { description: `asked${lookup.reason === null ? '' : ' again'} by ${whose}${why}`, at: later }
    }
    case Lookup.leased:
      return { description: 'its call is under way', at: null }
    case Lookup.submitted:
      return {
        description: 'waits for the delivery of its job; without one it is asked singly',
        at: ifFuture(job?.deadline_at ?? null, now),
      }
    default:
      // A row that waits has this time only when it was left for later.
      if (row?.due_at)
        return {
          description: 'answered: written when no other transaction holds a lock on it',
          at: ifFuture(row.due_at, now),
        }
      return {
        description: 'answered: written by the next write back, of a run or of `fillrate serve`',
        at: null,
      }
  }
}

/** A moment that is past is due, and not shown. */
const ifFuture = (at: Date | null, now: number): Date | null =>
  at !== null && at.getTime() > now ? at : null

const RETRY_HINT = ', or `fillrate retry` makes it due'

/** By state: what happens at `due_at`, and what can be done where there is none. */
const NEXT_BY_STATE: Readonly<Record<RowState | 'undone', { readonly why: string; readonly todo: string }>> =
  {
    waiting: { why: '', todo: '' },
    enriched: { why: 'asked again, because its answer is then old', todo: '' },
    unchanged: { why: 'asked again, because its answer is then old', todo: '' },
    undone: {
      why: 'asked again, because its answer is then old; `fillrate retry --state undone` writes it before',
      todo: ', or `fillrate retry --state undone` makes it due',
    },
    not_found: { why: 'asked again, because the service may know it by then', todo: '' },
    below_confidence: {
      why: 'asked again, because its answer is then old; with a lower minConfidence, `fillrate remap` writes it',
      todo: '',
    },
    invalid_input: { why: 'looked at again', todo: '' },
    rejected: { why: 'asked again', todo: RETRY_HINT },
    suppressed: { why: 'looked at again', todo: ': it was erased, and is never asked again' },
    write_rejected: {
      why: 'asked again, because its answer is then old; `fillrate retry` tries to write it before',
      todo: RETRY_HINT,
    },
    failed: { why: 'asked again; `fillrate retry` makes it due at once', todo: RETRY_HINT },
  }
