import type { OutputMapping, SourceMapping } from '../domain/mapping.ts'
import type { KeyOperators, Table, ColumnType, Fit } from './catalogue.ts'

/** A source with its steps, one for each of its services, in their order. As it is, it has the outputs of all. */
export interface WholeSource extends Source {
  /** Of a source with one service, itself. */
  readonly steps: readonly Source[]
}

/**
 * A mapping that was checked against the live catalogue, at one of its steps: all that its statements
 * are built from.
 */
export interface Source {
  readonly name: string
  readonly mapping: SourceMapping
  readonly table: Table
  /** In the order of the key's text. */
  readonly keyColumns: readonly KeyColumn[]
  /** The same columns in the order of the index that pages follow. */
  readonly keyOrder: readonly KeyColumn[]
  readonly outputs: readonly MappedOutput[]
  /** What only later steps fill. Absent: nothing, or a row goes on only where this one finds nothing. */
  readonly laterOutputs?: readonly MappedOutput[]
  /**
   * The same step, of a row that an earlier one has found: blank cells, and tracked ones that no other
   * step fills. Absent: it is the first.
   */
  readonly afterFound?: Source
  /** What all steps fill. Absent: this one fills all of it. */
  readonly allOutputs?: readonly MappedOutput[]
  readonly touches: readonly MappedTouch[]
  /** Its cell is among `touches`. Null: the source has none. */
  readonly freshness: MappedFreshness | null
  /** What Fillrate itself writes into what the inputs read. Absent: nothing. */
  readonly ownWrites?: OwnWrites
}

/** How a source's inputs are evaluated without what Fillrate wrote. */
export interface OwnWrites {
  /**
   * The sources that write to the table, this one included, with all cells that an input of some
   * source reads, and the touched ones that `where` reads.
   */
  readonly writers: readonly Writer[]
  /** Those of them whose cells this source's inputs read. */
  readonly readFrom: readonly Writer[]
  /** The inputs read something that Fillrate writes. */
  readonly isInput: boolean
  /** The inputs and the joins, in which other tables that Fillrate fills stand as the user gave them. */
  readonly inputs: SourceMapping['inputs']
  readonly joins: string | null
  /** The joins read something that Fillrate writes: they are made again on the row as the user gave it. */
  readonly joinsAgain: boolean
  /** This source, with the cells that its `where` reads. */
  readonly where: Writer
}

/** A source, as one that writes to a table. */
export interface Writer {
  readonly source: string
  readonly keyColumns: readonly KeyColumn[]
  readonly cells: readonly WrittenCell[]
}

/** A cell that changes with a write: an output, a touched column, or one that the user's trigger or expression sets. */
export interface WrittenCell extends MappedCell {
  readonly fit: Fit
  readonly isOutput: boolean
  /** Written only where it is blank. */
  readonly isFilled: boolean
}

/** The type of an expression for a time; the last two are compared with a bound that is safe in every time zone. */
export type TimeType = 'timestamptz' | 'timestamp' | 'date'

export interface KeyColumn {
  readonly name: string
  /** As `format_type` writes it. */
  readonly type: string
  readonly columnType: ColumnType
  readonly notNull: boolean
  /**
   * The operators of the key's index. Resolved by name, Postgres would search the search path, and without the type's
   * extension on it (citext) would find those of another type, with another order.
   */
  readonly operators: KeyOperators
}

/** A place to write to: a column, or a key inside a json or jsonb column. */
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
  /** What the value must fit: the column's own type, or jsonb for a key inside it. */
  readonly fit: Fit
  /**
   * What was written for earlier inputs may be replaced, and is never emptied: as configured the
   * policy overwrites. Absent: as the policy says.
   */
  readonly keepsEarlier?: true
}

/** What keeps when a row was enriched last, and the age at which that is out of date. */
export interface MappedFreshness {
  /** What each write sets: a column. */
  readonly cell: MappedCell
  readonly kind: TimeType
  readonly maxAgeMs: number
  /** Other sources that stamp the same cell of the same rows. */
  readonly sharedWith?: readonly string[]
}

/** Set together with an output, never alone. */
export interface MappedTouch extends MappedCell {
  readonly expression: string
}
