import type { SourceKind } from '../domain/mapping.ts'

/** A condition of `where`. */
export interface ProposedCondition {
  /** SQL: the rows that stay. */
  readonly keep: string
  /** The rows that it alone leaves out. */
  readonly leaves: number
  /** Whether it is in force, or a line for a person to choose. */
  readonly state: 'active' | 'offered'
}

/** A column to fill, as it is written in the configuration. */
export interface ProposedOutput {
  readonly column: string
  readonly field: string
  /** The share of the sampled rows that hold a value. */
  readonly filled: number
  /** The column's own labels; null: it takes any value that fits its type. */
  readonly map: Readonly<Record<string, string>> | null
}

/** A table of people or companies, as a source. */
export interface ProposedSource {
  readonly name: string
  readonly kind: SourceKind
  readonly table: string
  readonly key: readonly string[]
  /** SQL expressions, with the share of the sampled rows that have a usable value. */
  readonly inputs: ReadonlyArray<{ readonly input: string; readonly sql: string; readonly usable: number }>
  readonly outputs: readonly ProposedOutput[]
  readonly conditions: readonly ProposedCondition[]
  /** The rows that the conditions were counted over; null: counting took too long. */
  readonly counted: { readonly rows: number; readonly of: 'table' | 'sample' } | null
  /** The statements for what this role lacks on the table. */
  readonly grants: readonly string[]
}

/** A table that is no source although it was named, or its columns look like those of one. */
export interface LeftTable {
  readonly table: string
  readonly reason: string
  /** The statements that let this role read it. */
  readonly grants: readonly string[]
}

/** What was made of a database; its fields are those of the JSON. */
export interface Proposal {
  /** The number of tables that were read. */
  readonly tables: number
  readonly sources: readonly ProposedSource[]
  readonly left: readonly LeftTable[]
}
