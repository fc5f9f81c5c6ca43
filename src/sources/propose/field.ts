import type { Column, Table } from '../catalogue.ts'
import type { Fit } from '../column-type.ts'
import { BLANKS } from '../blanks.ts'
import { joinName, quoteLiteral, quoteName } from '../quote.ts'
import { wordsOf } from './words.ts'

/** A place that may hold something about a person or a company: a column, or a key inside a json column. */
export interface Field {
  /** As an output is named: `title`, `attributes.work.title`. */
  readonly name: string
  readonly column: Column
  /** Keys inside a json column; empty for the column itself. */
  readonly path: readonly string[]
  /** What a value must look like; jsonb for a key. */
  readonly fit: Fit
  readonly words: readonly string[]
  /** Sampled values that are not blank, as text; of arrays the first element. */
  readonly values: readonly string[]
  /** Of a key inside json: its values are all arrays. */
  readonly holdsArrays: boolean
}

/** Sampled rows of one table: the columns by name, as text; those of json columns as what they hold. */
export type SampleRow = Readonly<Record<string, unknown>>

/** The places of a table, keys of its json columns among them as far as the sample shows them. Pure. */
export function fieldsOf(table: Table, sample: readonly SampleRow[]): Field[] {
  return table.columns.flatMap((column) => {
    const whole = sample.map((row) => row[column.name])
    const { fit } = column.type
    const isJson = fit.kind === 'json' || fit.kind === 'jsonb'
    const self: Field = {
      name: column.name,
      column,
      path: [],
      fit,
      words: wordsOf(column.name),
      values: texts(isJson ? whole.filter(Array.isArray) : whole),
      holdsArrays: isJson && allArrays(whole),
    }
    return isJson ? [self, ...keysOf(column, whole)] : [self]
  })
}

/** Deeper keys belong to something else than the row itself. */
const DEEPEST = 3
/** A document with more keys than this is no set of attributes. */
const MOST_KEYS = 200

function keysOf(column: Column, values: readonly unknown[]): Field[] {
  const found = new Map<string, { path: string[]; values: unknown[] }>()
  const visit = (value: unknown, path: readonly string[]): void => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return
    for (const [key, inner] of Object.entries(value)) {
      const at = [...path, key]
      const id = JSON.stringify(at)
      if (!found.has(id) && found.size >= MOST_KEYS) return
      const entry = found.get(id) ?? { path: at, values: [] }
      entry.values.push(inner)
      found.set(id, entry)
      if (at.length < DEEPEST) visit(inner, at)
    }
  }
  for (const value of values) visit(value, [])
  return [...found.values()].flatMap(({ path, values }) => {
    // An object is a parent of fields and no field, and a number as a key means a list or a map of something.
    const holdsObjects = values.some(
      (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    )
    if (holdsObjects || path.some((key) => /^\d*$/.test(key))) return []
    return [
      {
        name: joinName([column.name, ...path]),
        column,
        path,
        fit: { kind: 'jsonb' as const },
        words: path.flatMap(wordsOf),
        values: texts(values),
        holdsArrays: allArrays(values),
      },
    ]
  })
}

function texts(values: readonly unknown[]): string[] {
  return values.flatMap((given) => {
    const value: unknown = Array.isArray(given) ? given[0] : given
    if (typeof value === 'number' || typeof value === 'boolean') return [String(value)]
    if (typeof value !== 'string') return []
    return [...value].every((sign) => BLANKS.includes(sign)) ? [] : [value]
  })
}

function allArrays(values: readonly unknown[]): boolean {
  const there = values.filter((value) => value !== null && value !== undefined)
  return there.length > 0 && there.every((value) => Array.isArray(value))
}

/** SQL for a field's value; of an array, for its first element. */
export function readField(
  field: Pick<Field, 'column' | 'path' | 'fit' | 'holdsArrays'>,
  alias: string,
): string {
  const column = `${alias}.${nameInSql(field.column.name)}`
  if (field.fit.kind === 'array') return `${column}[1]`
  const steps = [...field.path.map(quoteLiteral), ...(field.holdsArrays ? ['0'] : [])]
  const last = steps.pop()
  return last === undefined ? column : `${[column, ...steps].join(' -> ')} ->> ${last}`
}

/** In quotes only where it must be: after a dot a reserved word needs none. */
export const nameInSql = (name: string): string => (/^[a-z_][a-z0-9_$]*$/.test(name) ? name : quoteName(name))
