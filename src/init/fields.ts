import type { Column, Table } from '../sources/catalogue.ts'
import type { Fit } from '../sources/column-type.ts'
import { BLANK_CHARACTERS } from '../sources/cell.ts'
import { joinName, quoteIfNeeded, quoteLiteral } from '../sources/quote.ts'
import { splitIdentifier } from './words.ts'

/** A column, or a key inside a json column, that may hold a fact about a person or a company. */
export interface CandidateField {
  /** The output name: `title`, `attributes.work.title`. */
  readonly name: string
  readonly column: Column
  /** Keys inside a json column, and `0` for the first element of a list; empty for the column itself. */
  readonly path: readonly string[]
  /** What a value must look like; jsonb for a key. */
  readonly fit: Fit
  readonly words: readonly string[]
  /** Sampled values that are not blank, as text; for arrays, the first element. */
  readonly values: readonly string[]
  /** The labels in use, of a column that repeats few texts, and of an array; otherwise unknown. */
  readonly labels?: readonly string[]
  /** What each label means, where a comment on the column says so. */
  readonly codes?: ReadonlyMap<string, string>
  /** A key inside json whose values are all arrays. */
  readonly holdsArrays: boolean
}

/** A sampled row: column values as text, json columns parsed. */
export type SampledRow = Readonly<Record<string, unknown>>

/** The columns of a table, and the keys of its json columns that occur in the sample. Pure. */
export function listCandidateFields(
  table: Table,
  sample: readonly SampledRow[],
  labels: Readonly<Record<string, readonly string[]>> = {},
  codes: Readonly<Record<string, ReadonlyMap<string, string>>> = {},
): CandidateField[] {
  // A loader that flattens objects writes what a row refers to into columns of its own: `owner_id__email`.
  const own = table.columns.filter(({ name }) => !/_id__(?!value$|id$)./i.test(name))
  return own.flatMap((column) => {
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
      ...(labels[column.name] && { labels: labels[column.name] ?? [] }),
      ...(codes[column.name] && { codes: codes[column.name] ?? new Map() }),
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
  const found = new Map<string, { readonly path: readonly string[]; readonly values: unknown[] }>()
  const visit = (value: unknown, path: readonly string[]): void => {
    const isNested = Array.isArray(value)
    if (isNested && path.includes(FIRST)) return
    const object: unknown = isNested ? value[0] : value
    if (!isPlainObject(object)) return
    for (const [key, inner] of Object.entries(object)) {
      const at = [...path, ...(isNested ? [FIRST] : []), key]
      const entry = found.get(at.join('\0')) ?? { path: at, values: [] }
      if (/^\d*$/.test(key) || (entry.values.length === 0 && found.size >= MAX_KEYS)) continue
      entry.values.push(inner)
      found.set(at.join('\0'), entry)
      if (at.length < MAX_KEY_DEPTH) visit(inner, at)
    }
  }
  for (const value of values) visit(value, [])
  return [...found.values()]
    .filter(({ values }) => !values.some((value) => isPlainObject(Array.isArray(value) ? value[0] : value)))
    .map(({ path, values }) => {
      const keys = path.filter((key) => key !== FIRST)
      return {
        name: joinName([column.name, ...path]),
        column,
        path,
        fit: { kind: 'jsonb' as const },
        words: (keys.length < path.length ? [column.name, ...keys] : keys).flatMap(splitIdentifier),
        values: toTexts(values),
        holdsArrays: areAllArrays(values),
      }
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
  return there.length > 0 && there.every((value) => Array.isArray(value) && !isPlainObject(value[0]))
}

const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The step of a path into the first element of a list of objects: `emails -> 0 ->> 'value'`. */
const FIRST = '0'

/** Whether the field is inside a list of objects: it can be read, not written. */
export const isInList = ({ path }: Pick<CandidateField, 'path'>): boolean => path.includes(FIRST)

/** How a text column holds structured values, by its sample; null for plain text. Pure. */
export function serializedAs(values: readonly string[]): 'JSON' | 'YAML' | 'serialized PHP' | null {
  const share = (pattern: RegExp): boolean =>
    values.length > 0 && values.filter((value) => pattern.test(value)).length * 2 > values.length
  if (share(/^\s*(?:\[\s*(?:["{[\]]|-?\d)|\{\s*["}])/)) return 'JSON'
  if (share(/^---(?:\s|$)|^- \S[^\n]*\n- /)) return 'YAML'
  return share(/^(?:[aOs]:\d+:|N;|[bi]:\d+;)/) ? 'serialized PHP' : null
}

/** SQL for a field's value; for an array, its first element. */
export function fieldSql(
  field: Pick<CandidateField, 'column' | 'path' | 'fit' | 'holdsArrays'>,
  alias: string,
): string {
  const column = `${alias}.${quoteIfNeeded(field.column.name)}`
  if (field.fit.kind === 'array') return `${column}[1]`
  const steps = [
    ...field.path.map((key) => (key === FIRST ? key : quoteLiteral(key))),
    ...(field.holdsArrays ? ['0'] : []),
  ]
  const last = steps.pop()
  return last === undefined ? column : `${[column, ...steps].join(' -> ')} ->> ${last}`
}
