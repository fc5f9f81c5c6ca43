import type { OnDelete } from './deleted-row.ts'

/**
 * The resolved mapping of a source: the configuration of one user table with every default filled in. `config` creates
 * it, `sources` turns it into SQL, `pipeline` executes it.
 */

export type SourceKind = 'person' | 'company'

/** What some services take of a person beside name and company, or in place of the company. */
export const NAME_DETAILS = ['first_name', 'last_name', 'company_domain'] as const
export type NameDetail = (typeof NAME_DETAILS)[number]

/** What can identify a row. Each is an SQL expression over the source's table, named `t`. */
export type InputName = 'email' | 'linkedin_url' | 'name' | 'company' | 'domain' | NameDetail

/**
 * What happens to a column that already holds a value:
 * - `blank`: it is kept
 * - `tracked`: it is kept, unless Fillrate wrote it and it has not changed since
 * - `always`: it is overwritten
 */
export const WRITE_POLICIES = ['blank', 'tracked', 'always'] as const
export type WritePolicy = (typeof WRITE_POLICIES)[number]

/** What a policy requires of a cell. Its condition in SQL is in `sources/write/write-update.ts:isWritableSql`. */
interface PolicyRules {
  /** It may replace a value that Fillrate did not write. */
  readonly replacesOthers: boolean
  /** It replaces what Fillrate wrote last, so that the write has to know it. */
  readonly readsLastWritten: boolean
  /** What Fillrate wrote for earlier inputs of the row counts as blank, so that the write has to know it. */
  readonly readsEarlier: boolean
}

export const POLICY_RULES: Readonly<Record<WritePolicy, PolicyRules>> = {
  blank: { replacesOthers: false, readsLastWritten: false, readsEarlier: true },
  tracked: { replacesOthers: false, readsLastWritten: true, readsEarlier: true },
  always: { replacesOthers: true, readsLastWritten: false, readsEarlier: false },
}

export interface OutputMapping {
  /** As configured: `title`, or `attributes.department` for a key inside a jsonb column. */
  readonly column: string
  /** Path into the record: `title`, `company.domain`. */
  readonly field: string
  readonly policy: WritePolicy
  /** 0 to 1; a record below it is not written to this column. Null: the source's own minimum. */
  readonly minConfidence: number | null
  /** From values of the field to values of the column. Other values are skipped. */
  readonly map: Readonly<Record<string, string | number | boolean>> | null
  /** An SQL expression over `$value` (text), `$json` (jsonb), `$confidence` (double precision). */
  readonly sql: string | null
  /** Outputs of one group are written together or not at all. */
  readonly group: string | null
  /** A regular expression, by its source text and flags, that a value must match to be written. */
  readonly matches: { readonly source: string; readonly flags: string } | null
}

/** When a row goes on to the next service: if this one found nothing, or while a cell to be filled is blank. */
export const NEXT_WHEN = ['miss', 'blank'] as const
export type NextWhen = (typeof NEXT_WHEN)[number]

/** The place of a service among the steps of a source. */
export interface StepPlace {
  /** Its name. Null: the configuration has one service. */
  readonly service: string | null
  /** The services of the source, in their order. Empty: the configuration has one. */
  readonly services: readonly string[]
  /** It picks the rows of the table; a later step gets the rows that the step before it leaves. */
  readonly isFirst: boolean
  /** Null: it is the last. */
  readonly next: { readonly service: string; readonly when: NextWhen } | null
  /**
   * The inputs that the service takes; null: all. `inputs` are the same for each service of a source,
   * because their hash says whether a row has changed.
   */
  readonly takes: readonly InputName[] | null
  /** The details that it is sent with name and company. */
  readonly details: readonly NameDetail[]
}

export const ONLY_SERVICE: StepPlace = {
  service: null,
  services: [],
  isFirst: true,
  next: null,
  takes: null,
  details: [],
}

/** What one of its services does with a source: a step of the rows. */
export interface SourceStep {
  readonly step: StepPlace
  readonly minConfidence: number
  /**
   * The column that keeps when a row was enriched last, by whatever did it. A row counts as enriched
   * while that is less than `maxAgeMs` ago.
   */
  readonly freshness: { readonly column: string; readonly maxAgeMs: number } | null
  readonly outputs: readonly OutputMapping[]
}

/** A source, at one of its steps; as a whole at its first, with the outputs of all. */
export interface SourceMapping extends SourceStep {
  readonly name: string
  /** One at least, in the order of the services. */
  readonly steps: readonly SourceStep[]
  readonly kind: SourceKind
  /** As configured, quoted where needed: `crm.contacts`, `"Contacts"`. */
  readonly table: string
  readonly joins: string | null
  /** Column names, unquoted. Null: the table's primary key. */
  readonly key: readonly string[] | null
  /** Conditions, all of which an eligible row meets. Empty: every row is eligible. */
  readonly where: readonly string[]
  readonly inputs: Readonly<Partial<Record<InputName, string>>>
  /** Whether its rows are enriched as they change. */
  readonly follow: boolean
  /** What happens to what is stored of a row that the table no longer has. */
  readonly onDelete: OnDelete
  /** Rows written in an hour, at most. Null: no limit. */
  readonly writes: { readonly perHour: number } | null
  readonly cascade: boolean
  /** Whether a person has read what `init` drafted. Nothing is looked up or written before. */
  readonly reviewed: boolean
  /** Columns set only when an output is written, by SQL expression (with `$confidence`). */
  readonly touch: Readonly<Record<string, string>>
}

/** Sources as they are once a person has reviewed them: to plan, check or search them, which looks nothing up. Pure. */
export const asReviewed = (
  sources: Readonly<Record<string, SourceMapping>>,
): Readonly<Record<string, SourceMapping>> =>
  Object.fromEntries(Object.entries(sources).map(([name, mapping]) => [name, { ...mapping, reviewed: true }]))
