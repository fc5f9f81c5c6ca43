import { isObject } from '../domain/json.ts'
import type { Column, Table } from '../sources/catalogue.ts'
import { joinName, quoteIfNeeded, quoteLiteral } from '../sources/db.ts'

/** A row of a sample: texts and JSON, by column. */
export type SampledRow = Readonly<Record<string, unknown>>

type CellKind = 'text' | 'integer' | 'number' | 'boolean' | 'time' | 'list'

/** A column, or a key inside a jsonb column, with what the sampled rows hold in it. */
export interface Cell {
  /** As an output is written in the configuration: `title`, `properties.industry`. */
  readonly name: string
  /** The last part of the name, which says what the cell means. */
  readonly ownName: string
  readonly column: Column
  /** Keys inside the column; empty: the column itself. */
  readonly path: readonly string[]
  readonly kind: CellKind
  /** One for each sampled row; null where it is blank. */
  readonly values: readonly (string | null)[]
}

/** SQL for the value of a cell: of a list the array, of any other key inside jsonb the text. */
export function toCellSql({ column, path, kind }: Cell, alias = 't'): string {
  const own = `${alias}.${quoteIfNeeded(column.name)}`
  const key = path.at(-1)
  if (key === undefined) return own
  const outer = [own, ...path.slice(0, -1).map(quoteLiteral)].join(' -> ')
  return `${outer} ${kind === 'list' ? '->' : '->>'} ${quoteLiteral(key)}`
}

/** The share of sampled rows in which a cell holds what a test accepts; 0 without rows. */
export const shareOf = ({ values }: Cell, accepts: (value: string) => boolean): number =>
  values.length === 0 ? 0 : values.filter((value) => value !== null && accepts(value)).length / values.length

/** The columns that this role may read, and the keys inside those of jsonb. Pure. */
export const listCells = (table: Table, sample: readonly SampledRow[]): readonly Cell[] =>
  table.columns.flatMap((column) => {
    const { fit } = column.type
    if (!column.canSelect) return []
    const values = sample.map((row) => row[column.name] ?? null)
    if (fit.kind === 'jsonb' || fit.kind === 'json') return listKeys(column, [], values)
    const kind = CELL_KINDS[fit.kind === 'array' ? `array of ${fit.element.kind}` : fit.kind]
    return kind === undefined ? [] : [createCell(column, [], kind, values)]
  })

/** By what a column can hold; columns of other types say nothing of who a row is. */
const CELL_KINDS: Readonly<Record<string, CellKind>> = {
  text: 'text',
  enum: 'text',
  integer: 'integer',
  float: 'number',
  numeric: 'number',
  boolean: 'boolean',
  date: 'time',
  timestamp: 'time',
  timestamptz: 'time',
  'array of text': 'list',
  'array of enum': 'list',
}

const createCell = (
  column: Column,
  path: readonly string[],
  kind: CellKind,
  values: readonly unknown[],
): Cell => ({
  name: joinName([column.name, ...path]),
  ownName: path.at(-1) ?? column.name,
  column,
  path,
  kind,
  values: values.map(toText),
})

/** An object with more keys than this is a map from identifiers, and not a row of columns. */
const MAX_KEYS = 100
const MAX_DEPTH = 2

/** The keys inside a jsonb column with values of one type, two levels deep. */
function listKeys(column: Column, path: readonly string[], values: readonly unknown[]): Cell[] {
  const kind = kindOfJson(values)
  if (kind === 'list' || (kind !== null && path.length > 0)) return [createCell(column, path, kind, values)]
  const objects = values.filter((value) => isObject(value)) as Readonly<Record<string, unknown>>[]
  const keys = new Set(objects.flatMap((object) => Object.keys(object)))
  if (path.length === MAX_DEPTH || keys.size > MAX_KEYS) return []
  const valuesOf = (key: string): unknown[] =>
    values.map((value) => (isObject(value) ? (value as Readonly<Record<string, unknown>>)[key] : null))
  return [...keys].flatMap((key) => listKeys(column, [...path, key], valuesOf(key)))
}

/** The type of all values that are there; null if there are none, or several types, or objects. */
function kindOfJson(values: readonly unknown[]): CellKind | null {
  const present = values.filter((value) => value !== null && value !== undefined)
  if (present.length === 0) return null
  const isText = (value: unknown): boolean => typeof value === 'string'
  if (present.every((value) => Array.isArray(value) && value.every(isText))) return 'list'
  if (present.every(isText)) return 'text'
  if (present.every((value) => typeof value === 'boolean')) return 'boolean'
  return present.every((value) => typeof value === 'number') ? 'number' : null
}

function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null
  const text = (typeof value === 'string' ? value : JSON.stringify(value)).trim()
  return text === '' ? null : text
}
