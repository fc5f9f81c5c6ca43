import type { InputName, SourceKind } from '../domain/mapping.ts'

export interface ProposedInput {
  readonly input: InputName
  /** An SQL expression over the source's table, `t`. */
  readonly sql: string
}

/** An output, with those options that it needs. */
export interface ProposedOutput {
  readonly column: string
  readonly field: string
  /** The column's type, as the database names it. */
  readonly type: string
  readonly map?: Readonly<Record<string, string>>
  readonly sql?: string
  readonly group?: string
  readonly as?: 'json'
}

/** A column that looks right and is not proposed. */
export interface SkippedColumn {
  readonly column: string
  readonly why: string
}

export interface ProposedSource {
  readonly name: string
  readonly kind: SourceKind
  /** As the configuration names it. */
  readonly table: string
  /** Estimated by Postgres; null when it never looked. */
  readonly rows: number | null
  readonly joins: string | null
  /** Null: the primary key. */
  readonly key: readonly string[] | null
  readonly where: string | null
  readonly changedAt: string | null
  /** The column that tells when a row was changed, for those who have no trigger that sets it. */
  readonly touch: { readonly column: string; readonly sql: string } | null
  readonly inputs: readonly ProposedInput[]
  readonly outputs: readonly ProposedOutput[]
  readonly leftOut: readonly SkippedColumn[]
  /** What its owner should know or decide. */
  readonly notes: readonly string[]
  /** How rows of a sample would be asked about: so many by each identifier, in the order in which they are tried. */
  readonly sample: InputSample
}

export interface InputSample {
  readonly rows: number
  /** `email`, `linkedin_url`, `name_company` or `domain`. */
  readonly askedBy: Readonly<Record<string, number>>
}

/** A table that looked like one of people or companies, and why it is not proposed. */
export interface SkippedTable {
  readonly table: string
  readonly why: string
}

export interface Proposal {
  readonly sources: readonly ProposedSource[]
  readonly passedOver: readonly SkippedTable[]
  /** Tables that were looked at, and the schemas that they are in. */
  readonly looked: { readonly tables: number; readonly schemas: readonly string[] }
}
