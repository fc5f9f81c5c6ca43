/**
 * A source's mapping, resolved: what the configuration says of one user table, with every default
 * filled in. `config` makes it, `sources` turns it into SQL, `pipeline` follows it.
 */

export type SourceKind = 'person' | 'company'

/** What may identify a row. Each is an SQL expression over the source's table, named `t`. */
export type InputName = 'email' | 'linkedin_url' | 'name' | 'company' | 'domain'

/**
 * What may happen to a column that already holds a value.
 * - `blank`: it stays.
 * - `tracked`: it stays, unless Fillrate wrote it and nobody has changed it since.
 * - `always`: it is overwritten.
 */
export type WritePolicy = 'blank' | 'tracked' | 'always'

export interface OutputMapping {
  /** As configured: `title`, or `attributes.department` for a key inside a jsonb column. */
  readonly column: string
  /** Path into the record: `title`, `company.domain`. */
  readonly field: string
  readonly policy: WritePolicy
  /** 0..1; a record below it leaves this cell alone. Null: the source's own bound. */
  readonly minConfidence: number | null
  /** Values of the field to values of the column. A value that is not in it is skipped. */
  readonly map: Readonly<Record<string, string | number | boolean>> | null
  /** An SQL expression over `$value` (text), `$json` (jsonb), `$confidence` (double precision). */
  readonly sql: string | null
  /** Outputs of one group are written whole or not at all. */
  readonly group: string | null
  /** Text that the value must match to be written; the source text of a regular expression, and its flags. */
  readonly matches: { readonly source: string; readonly flags: string } | null
  readonly tooLong: 'skip' | 'truncate'
  /** `json`: an array or object is written as JSON text into a text column. */
  readonly as: 'json' | null
}

export interface SourceMapping {
  readonly name: string
  readonly kind: SourceKind
  /** As configured, quoted where it must be: `crm.contacts`, `"Contacts"`. */
  readonly table: string
  readonly joins: string | null
  /** Column names, unquoted. Null: the table's primary key. */
  readonly key: readonly string[] | null
  readonly where: string | null
  readonly changedAt: string | null
  readonly inputs: Readonly<Partial<Record<InputName, string>>>
  /** Its rows are enriched as they change. */
  readonly follow: boolean
  readonly minConfidence: number
  readonly cascade: boolean
  readonly outputs: readonly OutputMapping[]
  /** Columns set beside an output, and only then: column to SQL expression (`$confidence` bound). */
  readonly touch: Readonly<Record<string, string>>
}
