import type { Column, Table } from '../sources/catalogue.ts'
import type { Fit } from '../sources/column-type.ts'
import { BLANK_CHARACTERS } from '../sources/cell.ts'
import { joinName, quoteIfNeeded, quoteLiteral } from '../sources/quote.ts'
import { hasWord, splitIdentifier, toWordSet } from './words.ts'

/** A column, or a key inside a json column, that may hold a fact about a person or a company. */
export interface CandidateField {
  /** The output name: `title`, `attributes.work.title`. */
  readonly name: string
  readonly column: Column
  /** Keys inside a json column, and `0` for the first element of a list; empty for the column itself. */
  readonly path: readonly string[]
  /** What a value must look like; jsonb for a key. A text of which a constraint lists the values is as good as an enum. */
  readonly fit: Fit
  readonly words: readonly string[]
  /** Sampled values that are not blank, as text; for arrays, the first element. */
  readonly values: readonly string[]
  /** The labels in use, of a column that repeats few texts, and of a list of tags; otherwise unknown. */
  readonly labels?: readonly string[] | undefined
  /** Whether a value is a list of labels, or of keys, inside json. Arrays are known by their type. */
  readonly isTags?: boolean
  /** What each label means, where a comment on the column says so. */
  readonly codes?: ReadonlyMap<string, string> | undefined
  /** A key inside json whose values are all arrays. */
  readonly holdsArrays: boolean
}

/** A sampled row: column values as text, json columns parsed. */
export type SampledRow = Readonly<Record<string, unknown>>

/**
 * The columns of a table, and the keys of its json columns that occur in the sample. Pure.
 * @param about what is known of a column beside its sampled values
 */
export function listCandidateFields(
  table: Table,
  sample: readonly SampledRow[],
  about: (column: string) => Partial<CandidateField> = () => ({}),
): CandidateField[] {
  // A loader that flattens objects writes what a row refers to into columns of its own: `owner_id__email`.
  const own = table.columns.filter(({ name }) => !/_id__(?!value$|id$)./i.test(name))
  return own.flatMap((column): CandidateField[] => {
    const { name, type } = column
    const values = sample.map((row) => row[name])
    if (/^jsonb?$/.test(type.fit.kind)) return jsonFields(column, values)
    const words = splitIdentifier(name)
    const read = { name, column, path: [], fit: type.fit, words, values: toTexts(values), holdsArrays: false }
    return [{ ...read, ...about(name) }]
  })
}

/** Deeper keys describe something other than the row. */
const MAX_KEY_DEPTH = 3
/** A document with more keys than this is not a set of attributes. */
const MAX_KEYS = 200

/** A json column itself, and the keys inside it. */
function jsonFields(column: Column, roots: readonly unknown[]): CandidateField[] {
  const found = new Map<string, { readonly path: readonly string[]; readonly values: unknown[] }>()
  const visit = (value: unknown, path: readonly string[]): void => {
    const id = path.join('\0')
    const entry = found.get(id) ?? { path, values: [] }
    if (entry.values.length === 0 && found.size > MAX_KEYS) return
    entry.values.push(value)
    found.set(id, entry)
    const isNested = Array.isArray(value)
    const object: unknown = isNested ? value[0] : value
    if ((isNested && path.includes(FIRST)) || !isPlainObject(object) || path.length >= MAX_KEY_DEPTH) return
    for (const [key, inner] of Object.entries(object))
      if (!/^\d*$/.test(key)) visit(inner, [...path, ...(isNested ? [FIRST] : []), key])
  }
  for (const root of roots) visit(root, [])
  if (roots.length === 0) found.set('', { path: [], values: [] })
  // The name in a document `company` is no person's.
  const isOfCompany = /^(?:company|organization|account|employer)$/.test(splitIdentifier(column.name).join())
  return [...found.values()].flatMap(({ path, values }): CandidateField[] => {
    const isWhole = path.length === 0
    if (!isWhole && values.some((value) => isPlainObject(Array.isArray(value) ? value[0] : value))) return []
    const keys = path.filter((key) => key !== FIRST)
    const holdsArrays = areAllArrays(values)
    const field: CandidateField = {
      name: isWhole ? column.name : joinName([column.name, ...path]),
      column,
      path,
      fit: isWhole ? column.type.fit : { kind: 'jsonb' },
      words: (isWhole || isOfCompany || isInList({ path }) ? [column.name, ...keys] : keys).flatMap(
        splitIdentifier,
      ),
      values: toTexts(values),
      holdsArrays,
    }
    const isList = holdsArrays || isTagKey(column, keys, path)
    const labels = isList ? repeatedLabels(elementsAt(roots, keys)) : undefined
    return [labels ? { ...field, labels, isTags: true } : field]
  })
}

/** Lists whose elements say what a row is, by their name. */
const TAG_LISTS = toWordSet('tag label segment group category list keyword flag status type')

/** Whether a key of the objects in a list names a tag, or has the key of one. */
const isTagKey = (column: Column, keys: readonly string[], path: readonly string[]): boolean =>
  path.at(-2) === FIRST &&
  hasWord([column.name, ...keys.slice(0, -1)].flatMap(splitIdentifier), TAG_LISTS) &&
  /^(?:name|tag|label|value|slug|title|text|id|key|uuid|(?:tag|label|list|segment)_?id)$/i.test(
    keys.at(-1) ?? '',
  )

/** A list with more labels, or with longer ones, is one of texts. */
export const MAX_LABELS = 60
export const MAX_LABEL_CHARACTERS = 60

/** The labels among values, or in lists, that repeat few of them; undefined if there are none. */
export function repeatedLabels(values: readonly unknown[]): readonly string[] | undefined {
  const all = toTexts(values.flat())
  const labels = new Set(all)
  const isRepeated = labels.size > 0 && labels.size <= MAX_LABELS && labels.size * 2 <= all.length
  const isShort = isRepeated && [...labels].every((one) => one.length <= MAX_LABEL_CHARACTERS)
  return isShort ? [...labels].toSorted() : undefined
}

function elementsAt(value: unknown, keys: readonly string[]): readonly unknown[] {
  if (Array.isArray(value)) return value.flatMap((one) => elementsAt(one, keys))
  const [key, ...rest] = keys
  return key === undefined ? [value] : isPlainObject(value) ? elementsAt(value[key], rest) : []
}

function toTexts(values: readonly unknown[]): string[] {
  return values.flatMap((given) => {
    const value: unknown = Array.isArray(given) ? given[0] : given
    if (typeof value === 'number' || typeof value === 'boolean') return [String(value)]
    if (typeof value !== 'string') return []
    return BLANK.test(value) ? [] : [value]
  })
}

const BLANK = new RegExp(`^[${BLANK_CHARACTERS}]*$`, 'u')

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

/** SQL: an array of what a list has in it. */
function elementsSql({ column, path, fit, holdsArrays }: CandidateField, alias: string): string {
  const sql = `${alias}.${quoteIfNeeded(column.name)}`
  if (fit.kind === 'array') return sql
  const steps = path.map((key) => (key === FIRST ? '[*]' : `.${JSON.stringify(key)}`))
  const all = `$${steps.join('')}${holdsArrays ? '[*]' : ''}`
  const json = column.type.fit.kind === 'json' ? `${sql}::jsonb` : sql
  return `array(select jsonb_path_query(${json}, ${quoteLiteral(all)}) #>> '{}')`
}

/** SQL: whether a list has one of the labels. */
export const hasTagSql = (field: CandidateField, alias: string, labels: readonly string[]): string =>
  `${elementsSql(field, alias)} && array[${labels.map(quoteLiteral).join(', ')}]::${field.fit.kind === 'array' ? field.column.type.name : 'text[]'}`

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
