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
  /** What a value must look like; jsonb for a key. */
  readonly fit: Fit
  readonly words: readonly string[]
  /** Sampled values that are not blank, as text; for arrays, the first element. */
  readonly values: readonly string[]
  /** The labels in use, of a column that repeats few texts, and of a list of tags; otherwise unknown. */
  readonly labels?: readonly string[]
  /** Whether a value is a list of labels, or of keys: inside json, or with signs between them. Arrays are known by their type. */
  readonly isTags?: boolean
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
      ...(isJson
        ? areAllArrays(whole) && tagsAt(whole, [])
        : fit.kind === 'text' && tagsInTexts(column, whole)),
    }
    return isJson ? [self, ...jsonKeyFields(column, whole)] : [self]
  })
}

/** Deeper keys describe something other than the row. */
const MAX_KEY_DEPTH = 3
/** A document with more keys than this is not a set of attributes. */
const MAX_KEYS = 200

function jsonKeyFields(column: Column, roots: readonly unknown[]): CandidateField[] {
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
  for (const root of roots) visit(root, [])
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
        ...((areAllArrays(values) || isTagKey(column, keys, path)) && tagsAt(roots, keys)),
      }
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

/** The labels of lists, if they repeat. */
function toTags(given: readonly unknown[]): Partial<CandidateField> {
  const all = toTexts(given)
  const labels = [...new Set(all)].toSorted()
  const isRepeated = labels.length > 0 && labels.length <= MAX_TAGS && labels.length * 2 <= all.length
  return isRepeated && labels.every((one) => one.length <= MAX_TAG_CHARACTERS) ? { labels, isTags: true } : {}
}
const MAX_TAGS = 100
const MAX_TAG_CHARACTERS = 60

/** The labels in lists inside json. */
const tagsAt = (values: readonly unknown[], keys: readonly string[]): Partial<CandidateField> =>
  toTags(values.flatMap((value) => elementsAt(value, keys)))

function elementsAt(value: unknown, keys: readonly string[]): readonly unknown[] {
  if (Array.isArray(value)) return value.flatMap((one) => elementsAt(one, keys))
  const [key, ...rest] = keys
  return key === undefined ? [value] : isPlainObject(value) ? elementsAt(value[key], rest) : []
}

/** The labels of a column of tags that has commas or semicolons between them. */
function tagsInTexts({ name }: Column, values: readonly unknown[]): Partial<CandidateField> {
  const texts = hasWord(splitIdentifier(name), TAG_LISTS) ? toTexts(values) : []
  return texts.some((text) => TAG_SIGNS.test(text))
    ? toTags(texts.flatMap((text) => text.trim().split(TAG_SIGNS)))
    : {}
}
const TAG_SIGNS = / *[,;] */

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

/** SQL: an array of what a list has in it. */
export function elementsSql({ column, path, fit, holdsArrays }: CandidateField, alias: string): string {
  const sql = `${alias}.${quoteIfNeeded(column.name)}`
  if (fit.kind === 'array') return sql
  if (fit.kind === 'text') return `regexp_split_to_array(btrim(${sql}), ${quoteLiteral(TAG_SIGNS.source)})`
  const steps = path.map((key) => (key === FIRST ? '[*]' : `.${JSON.stringify(key)}`))
  const all = `$${steps.join('')}${holdsArrays ? '[*]' : ''}`
  return `array(select jsonb_path_query(${sql}${JSONB[column.type.fit.kind] ?? ''}, ${quoteLiteral(all)}) #>> '{}')`
}
const JSONB: Readonly<Record<string, string>> = { json: '::jsonb' }

/** SQL: whether a list has one of the labels. */
export function hasTagSql(field: CandidateField, alias: string, labels: readonly string[]): string {
  const { column, path, fit, holdsArrays } = field
  if (fit.kind === 'array' || fit.kind === 'text')
    return `${elementsSql(field, alias)} && array[${labels.map(quoteLiteral).join(', ')}]::${fit.kind === 'text' ? 'text[]' : column.type.name}`
  const documents = labels.map((label) => {
    const steps = holdsArrays ? [...path, FIRST] : path
    const json = steps.reduceRight<unknown>(
      (inner, key) => (key === FIRST ? [inner] : { [key]: inner }),
      label,
    )
    return quoteLiteral(JSON.stringify(json))
  })
  const some = documents.length === 1 ? documents[0] : `any (array[${documents.join(', ')}]::jsonb[])`
  return `${alias}.${quoteIfNeeded(column.name)}${JSONB[column.type.fit.kind] ?? ''} @> ${some}`
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
