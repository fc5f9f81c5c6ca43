import { type CandidateField, type SampledRow, listCandidateFields } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import { KEY_WORDS, type TableRelation, freeFields } from './relations.ts'
import { singularize, splitIdentifier, toOwnWords } from './words.ts'

/** A list of codes: a table, or the rows of one that holds many lists. */
interface CodeList {
  readonly table: IntrospectedTable
  readonly key: string
  readonly only?: TableRelation['only']
  readonly rows: readonly SampledRow[]
  readonly codes: ReadonlySet<string>
  /** What the list is called. */
  readonly words: ReadonlySet<string>
}

/** A longer value is no code. */
const MAX_CODE_CHARACTERS = 20
/** A table with more columns is more than a list. */
const MAX_COLUMNS = 12

/**
 * Columns whose values are all codes of a list of a similar name, though nothing declares it: `sector_code` to the rows of
 * `code_list` whose `list_name` is SECTOR, `custentity_industry` to `customlist_industry`. Pure.
 * @param known relations that are known: their columns have a table already
 */
export function suggestedCodeLists(
  tables: readonly IntrospectedTable[],
  known: readonly TableRelation[],
): TableRelation[] {
  const lists = tables.flatMap(codeListsOf)
  return freeFields(tables, known).flatMap(({ from, field }) => {
    const list = findCodeList(field, toOwnWords(from.table.name), lists)
    if (list === undefined || list.table === from) return []
    const { table, key, only, rows } = list
    const to = only ? { ...table, sample: rows, fields: listCandidateFields(table.table, rows) } : table
    return [{ from, to, columns: [field.name], targets: [key], type: null, ...(only && { only }) }]
  })
}

/** The smallest list of a similar name that has all values of a column. */
function findCodeList(
  { words, values }: CandidateField,
  own: ReadonlySet<string>,
  lists: readonly CodeList[],
): CodeList | undefined {
  const used = [...new Set(values.map((value) => value.trim()))]
  const said = words.map(singularize).filter((word) => !KEY_WORDS.has(word) && !own.has(word))
  if (used.length < 2 || used.some((value) => value.length > MAX_CODE_CHARACTERS)) return undefined
  return lists
    .filter(
      ({ codes, words }) => said.some((word) => words.has(word)) && used.every((value) => codes.has(value)),
    )
    .toSorted((a, b) => a.codes.size - b.codes.size)[0]
}

/** The lists of a table: itself, by a key of one column, and those that a key of two columns, list and code, keeps apart. */
function codeListsOf(table: IntrospectedTable): CodeList[] {
  const { sample } = table
  const { columns, name, primaryKey, uniqueKeys } = table.table
  if (columns.length > MAX_COLUMNS || sample.length === 0) return []
  const textOf = (row: SampledRow, column: string): string => String(row[column] ?? '').trim()
  const listOf = (key: string, rows: typeof sample, words: ReadonlySet<string>): CodeList => {
    const codes = new Set(rows.map((row) => textOf(row, key)))
    return { table, key, rows, codes, words }
  }
  const own = toOwnWords(name)
  return [primaryKey, ...uniqueKeys].flatMap((keys): CodeList[] => {
    const [first, second, ...more] = keys
    if (first === undefined || more.length > 0) return []
    // `industry` of a table of industries is the label itself.
    const isLabel = splitIdentifier(first).every((word) => own.has(word))
    if (second === undefined) return isLabel ? [] : [listOf(first, sample, own)]
    return [
      [first, second],
      [second, first],
    ].flatMap(([column = '', key = '']) =>
      [...Map.groupBy(sample, (row) => textOf(row, column))].map(([value, rows]) => ({
        ...listOf(key, rows, new Set(splitIdentifier(value).map(singularize))),
        only: { column, value },
      })),
    )
  })
}
