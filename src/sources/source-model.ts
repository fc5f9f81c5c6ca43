import type { OutputMapping, SourceMapping } from '../domain/mapping.ts'
import type { KeyOperators, Table } from './catalogue.ts'
import type { ColumnType, Fit } from './column-type.ts'

/** A mapping that has been held against the live catalogue: everything that its statements are built from. */
export interface Source {
  readonly name: string
  readonly mapping: SourceMapping
  readonly table: Table
  /** In the order in which the key is written as text. */
  readonly keyColumns: readonly KeyColumn[]
  /** The same, in the order of the index that the pages follow. */
  readonly keyOrder: readonly KeyColumn[]
  readonly outputs: readonly MappedOutput[]
  readonly touches: readonly MappedTouch[]
  /** Null: the source has no `changedAt`. */
  readonly changedAtType: ChangedAtType | null
}

/** What a `changedAt` may be: the last two are held against a bound that holds in every time zone. */
export type ChangedAtType = 'timestamptz' | 'timestamp' | 'date'

export interface KeyColumn {
  readonly name: string
  /** As `format_type` says it. */
  readonly type: string
  readonly columnType: ColumnType
  readonly notNull: boolean
  /**
   * Those of the index behind the key. By name alone Postgres looks for them on the search path, and where the
   * extension that brought the type is not on it (citext), finds those of another type, which order otherwise.
   */
  readonly operators: KeyOperators
}

/** A place that is written: a column, or a key inside a json or jsonb column. */
export interface MappedCell {
  /** As configured: `title`, `attributes.department`. */
  readonly column: string
  /** The real column's name. */
  readonly attribute: string
  /** Inside a json or jsonb column; empty for the column itself. */
  readonly path: readonly string[]
  readonly type: ColumnType
}

export interface MappedOutput extends MappedCell {
  readonly mapping: OutputMapping
  /** What a value must look like: the column's own fit, or jsonb for a key inside it. */
  readonly fit: Fit
  /** What `$value` is: text, or a number where only so the expression makes sense (`$value * 1000`). */
  readonly value: 'text' | 'number'
}

/** Set beside an output, and only then. */
export interface MappedTouch extends MappedCell {
  readonly expression: string
}
