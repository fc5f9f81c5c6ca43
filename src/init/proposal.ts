import type { Grant, MissingPolicy } from '../sources/grants.ts'
import type { GivenService } from '../config/service.ts'
import type { InputName, SourceKind } from '../domain/mapping.ts'
import type { Service } from '../domain/service/service.ts'

interface ProposedInput {
  readonly input: InputName
  /** SQL expression over the source's table, `t`. */
  readonly sql: string
}

/** An output with the options it needs. */
export interface ProposedOutput {
  readonly column: string
  readonly field: string
  /** The column's type, as the database names it. */
  readonly type: string
  readonly map?: Readonly<Record<string, string>>
  readonly sql?: string
  readonly group?: string
  /** The source of a regular expression that values must match. */
  readonly matches?: string
  /** With several services that fill the column in different ways: how each does. */
  readonly byService?: readonly (readonly [service: string, output: ProposedOutput])[]
}

/** A service to propose for: the built-in interface, or a description in a module. */
export interface FoundService {
  readonly name: string
  /** Relative to the configuration; null: the built-in interface. */
  readonly module: string | null
  readonly given: GivenService | null
  readonly service: Service
}

/** The services of a configuration. */
export interface FoundServices {
  /** Whether they have names, and keys under their names; otherwise there is one. */
  readonly isNamed: boolean
  readonly services: readonly FoundService[]
}

/** A column that looks suitable and is not proposed. */
export interface SkippedColumn {
  readonly column: string
  readonly reason: string
  /** The output that it would be: written as a comment. */
  readonly output?: ProposedOutput
}

/** What the user has to decide: whether a flag that is not understood leaves rows out. */
export interface Question {
  /** The column, or the table, that raises it. */
  readonly about: string
  /** Which rows it is about: `lifecycle is former or disqualified`. */
  readonly when: string
  /** SQL: which rows stay if the answer is yes. */
  readonly keep: string
  /** How many of the sampled rows would be left out. */
  readonly leftOut: number
  /** The safe answer: it looks like a reason by its name, or few rows have it, so they are left out until the answer is no. */
  readonly isLeftOut: boolean
  /** Whether its name says that it is a reason. */
  readonly isUnderstood: boolean
  /** Whether its name leaves no doubt: then it is a choice where there is room for it. */
  readonly isSure: boolean
  /** Whether it is about a row that this one refers to. */
  readonly isOfOther: boolean
}

export interface ProposedSource {
  readonly name: string
  readonly kind: SourceKind
  /** The table name, as written in the configuration. */
  readonly table: string
  /** Estimated by Postgres; null before its first ANALYZE. */
  readonly rows: number | null
  readonly joins: string | null
  /** Null: the primary key. */
  readonly key: readonly string[] | null
  readonly where: string | null
  readonly changedAt: string | null
  /** The column in which the user keeps when a row was enriched. */
  readonly freshness: string | null
  /** The column that records when a row changed, for tables without a trigger that sets it. */
  readonly touch: { readonly column: string; readonly sql: string } | null
  readonly inputs: readonly ProposedInput[]
  readonly outputs: readonly ProposedOutput[]
  readonly skippedColumns: readonly SkippedColumn[]
  readonly questions: readonly Question[]
  /** Advice for the user. */
  readonly notes: readonly string[]
  /** How many sampled rows each identifier would look up, in the order in which identifiers are tried. */
  readonly sample: InputSample
}

interface InputSample {
  readonly rows: number
  /** `email`, `linkedin_url`, `name_company` or `domain`. */
  readonly identifiedBy: Readonly<Record<string, number>>
}

/** A table that looks suitable, and why it is not proposed. */
export interface SkippedTable {
  readonly table: string
  readonly reason: string
}

/** A source that is proposed only if a person says that its rows are meant. */
export interface PossibleSource {
  readonly source: ProposedSource
  /** Why it is left otherwise. */
  readonly reason: string
}

/** A table that this role may not read, and that a proposal would have to. */
export interface UnreadTable {
  readonly table: string
  /** What it may say, and of what; null: only the user says that it matters, by its name. */
  readonly why: string | null
  readonly isNamed: boolean
  /** What the role lacks to read it. */
  readonly lacking: readonly (Grant | MissingPolicy)[]
}

/** Why a table is proposed as it is: a line for each column, without a value of a row. */
export interface TableExplanation {
  readonly table: string
  /** What its rows are taken for, or why it is left. */
  readonly verdict: string
  readonly columns: readonly { readonly column: string; readonly type: string; readonly said: string }[]
}

export interface Proposal {
  readonly sources: readonly ProposedSource[]
  readonly possible: readonly PossibleSource[]
  readonly skippedTables: readonly SkippedTable[]
  readonly unread: readonly UnreadTable[]
  /** The role that read the database, as SQL writes it. */
  readonly role: string
  /** What was made of each column of the tables that the user named. */
  readonly explained: readonly TableExplanation[]
  /** The number of tables examined, and their schemas. */
  readonly examined: { readonly tables: number; readonly schemas: readonly string[] }
}
