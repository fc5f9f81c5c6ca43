import type { Column, Table } from '../sources/catalogue.ts'
import type { Fit } from '../sources/column-type.ts'
import { BLANK_CHARACTERS } from '../sources/cell.ts'
import { joinName, quoteLiteral, quoteName } from '../sources/quote.ts'
import { splitIdentifier } from './identifier-words.ts'

/** A column, or a key inside a json column, that may hold a fact about a person or a company. */
export interface CandidateField {
  /** The output name: `title`, `attributes.work.title`. */
  readonly name: string
  readonly column: Column
  /** Keys inside a json column; empty for the column itself. */
  readonly path: readonly string[]
  /** What a value must look like; jsonb for a key. */
  readonly fit: Fit
  readonly words: readonly string[]
  /** Sampled values that are not blank, as text; for arrays, the first element. */
  readonly values: readonly string[]
  /** A key inside json whose values are all arrays. */
  readonly holdsArrays: boolean
}

/** A sampled row: column values as text, json columns parsed. */
export type SampledRow = Readonly<Record<string, unknown>>

/** The columns of a table, and the keys of its json columns that occur in the sample. Pure. */
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

/** Deeper keys describe something other than the row. */
const MAX_KEY_DEPTH = 3
/** A document with more keys than this is not a set of attributes. */
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
    // An object holds fields and is none itself. A number as a key means a list or a map.
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

/** SQL for a field's value; for an array, its first element. */
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

/** Quotes a name only if it needs it: after a dot, a reserved word does not. */
export const quoteIfNeeded = (name: string): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) ? name : quoteName(name)
