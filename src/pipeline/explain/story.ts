import type { InputName, Policy } from '../../domain/mapping.ts'
import type { RowState } from '../../domain/row.ts'
import type { LookedIn } from '../../sources/look.ts'
import type { DeliveryStory, JobStory, LookupStory } from '../../store/story.ts'
import type { Next } from './next.ts'

/** One row's story, from what it is now to what comes next. */
export interface Story {
  readonly source: string
  readonly key: string
  readonly table: string
  readonly row: {
    readonly exists: boolean
    /** What keeps it out of the source; null when it belongs to it. */
    readonly excluded_by: LookedIn['leftOutBy']
    /** Rows that the joins give for it: more than one is a mistake in the mapping. */
    readonly join_count: number
    /** The error of an expression that fails on it. */
    readonly problem: string | null
    /** As the source's expressions give them. */
    readonly inputs: Readonly<Partial<Record<InputName, string | null>>>
    /** What its inputs would be asked as; null where none is usable. */
    readonly lookup_request: Question | null
    readonly input_notes: ReadonlyArray<{ readonly input: string; readonly reason: string }>
    readonly columns: readonly Column[]
  }
  /** Null: it was never picked. */
  readonly state: State | null
  readonly lookup: AskedLookup | null
  /** Lookups that found nothing before this one, in a cascade. */
  readonly missed_lookups: readonly AskedLookup[]
  readonly job: JobStory | null
  readonly deliveries: readonly DeliveryStory[]
  /** The service's answer, whole. */
  readonly record: unknown
  readonly fields: readonly Field[]
  /** Newest first. */
  readonly changes: readonly Change[]
  readonly next: Next
}

export interface Question {
  readonly kind: string
  readonly input: Readonly<Record<string, string>>
}

export interface Column {
  readonly column: string
  readonly value: unknown
  readonly blank: boolean
  /** Null: a column of `touch`. */
  readonly policy: Policy | null
  /** It holds what Fillrate wrote. */
  readonly written_by_fillrate: boolean
  /** The run that wrote it; null where that is not known. */
  readonly written_by: number | null
}

export interface State {
  readonly state: RowState
  readonly reason: string | null
  readonly notes: Readonly<Record<string, unknown>> | null
  /** The run that settled it last, or that holds it. */
  readonly run: number | null
  /** That run's process is alive. */
  readonly alive: boolean
  readonly inputs_changed: boolean
  readonly picked_at: Date
  readonly settled_at: Date | null
  readonly due_at: Date | null
}

export type AskedLookup = Omit<LookupStory, 'record'>

/** What the mapping makes of one field of the record. */
export interface Field {
  readonly field: string
  readonly column: string
  readonly value: unknown
  /** Why it can't be written; null: it fits. */
  readonly skipped: string | null
}

export interface Change {
  readonly id: number
  readonly run: number | null
  readonly written_at: Date
  /** The run whose write this takes back. */
  readonly undoes: number | null
  /** The run that has taken this back. */
  readonly undone_by: number | null
  readonly cells: ReadonlyArray<{
    readonly column: string
    readonly before: unknown
    readonly after: unknown
    readonly undone: boolean
  }>
}
