import type { Column, Table } from '../sources/catalogue.ts'
import type { Fit } from '../sources/column-type.ts'
import { BLANK_CHARACTERS } from '../sources/cell.ts'
import { joinName, quoteLiteral, quoteName } from '../sources/quote.ts'
import { splitIdentifier } from './identifier-words.ts'

/** A place that may hold something about a person or a company: a column, or a key inside a json column. */
export interface CandidateField {
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
export type SampledRow = Readonly<Record<string, unknown>>

/** The places of a table, keys of its json columns among them as far as the sample shows them. Pure. */
export function listCandidateFields(table: Table, sample: readonly SampledRow[]): CandidateField[] {
  return table.columns.flatMap((column) => {
    const whole = sample.map((row) => row[column.name])
    const { fit } = column.type
    const isJson = fit.kind === 'json' || fit.kind === 'jsonb'
    const self: CandidateField = {
      name: column.name,
      column,
      path: [],
      fit,
      words: splitIdentifier(column.name),
      values: toTexts(isJson ? whole.filter(Array.isArray) : whole),
      holdsArrays: isJson && areAllArrays(whole),
    }
    return isJson ? [self, ...jsonKeyFields(column, whole)] : [self]
  })
}

/** Deeper keys belong to something else than the row itself. */
const MAX_KEY_DEPTH = 3
/** A document with more keys than this is no set of attributes. */
const MAX_KEYS = 200

function jsonKeyFields(column: Column, values: readonly unknown[]): CandidateField[] {
  const found = new Map<string, { path: string[]; values: unknown[] }>()
  const visit = (value: unknown, path: readonly string[]): void => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return
    for (const [key, inner] of Object.entries(value)) {
      const at = [...path, key]
      const id = JSON.stringify(at)
      if (!found.has(id) && found.size >= MAX_KEYS) return
      const entry = found.get(id) ?? { path: at, values: [] }
      entry.values.push(inner)
      found.set(id, entry)
      if (at.length < MAX_KEY_DEPTH) visit(inner, at)
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
        words: path.flatMap(splitIdentifier),
        values: toTexts(values),
        holdsArrays: areAllArrays(values),
      },
    ]
  })
}

function toTexts(values: readonly unknown[]): string[] {
  return values.flatMap((given) => {
    const value: unknown = Array.isArray(given) ? given[0] : given
    if (typeof value === 'number' || typeof value === 'boolean') return [String(value)]
    if (typeof value !== 'string') return []
    return [...value].every((sign) => BLANK_CHARACTERS.includes(sign)) ? [] : [value]
  })
}

function areAllArrays(values: readonly unknown[]): boolean {
  const there = values.filter((value) => value !== null && value !== undefined)
  return there.length > 0 && there.every((value) => Array.isArray(value))
}

/** SQL for a field's value; of an array, for its first element. */
export function fieldSql(
  field: Pick<CandidateField, 'column' | 'path' | 'fit' | 'holdsArrays'>,
  alias: string,
): string {
  const column = `${alias}.${quoteIfNeeded(field.column.name)}`
  if (field.fit.kind === 'array') return `${column}[1]`
  const steps = [...field.path.map(quoteLiteral), ...(field.holdsArrays ? ['0'] : [])]
  const last = steps.pop()
  return last === undefined ? column : `${[column, ...steps].join(' -> ')} ->> ${last}`
}

/** In quotes only where it must be: after a dot a reserved word needs none. */
export const quoteIfNeeded = (name: string): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) ? name : quoteName(name)
