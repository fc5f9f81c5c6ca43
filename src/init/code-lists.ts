import { type CandidateField, listCandidateFields } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import { KEY_WORDS, type TableRelation } from './relations.ts'
import { singularize, splitIdentifier, toOwnWords } from './words.ts'

/** A list of codes: a table, or the rows of one that holds many lists. */
interface CodeList {
  readonly table: IntrospectedTable
  readonly key: string
  readonly only?: TableRelation['only']
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
  const taken = new Set(
    known.flatMap(({ from, columns }) => columns.map((column) => `${from.table.sql} ${column}`)),
  )
  return tables.flatMap((from) => {
    const own = toOwnWords(from.table.name)
    return from.fields.flatMap((field) => {
      if (field.path.length > 0 || taken.has(`${from.table.sql} ${field.name}`)) return []
      const list = findCodeList(field, own, lists)
      if (list === undefined || list.table.table.sql === from.table.sql) return []
      const { table: to, key, only } = list
      return [{ from, to, columns: [field.name], targets: [key], type: null, ...(only && { only }) }]
    })
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
function codeListsOf(one: IntrospectedTable): CodeList[] {
  const { table, sample } = one
  if (table.columns.length > MAX_COLUMNS || sample.length === 0) return []
  const textOf = (row: Readonly<Record<string, unknown>>, column: string): string =>
    String(row[column] ?? '').trim()
  const listOf = (key: string, rows: typeof sample): Pick<CodeList, 'table' | 'key' | 'codes'> => ({
    table: one,
    key,
    codes: new Set(rows.map((row) => textOf(row, key))),
  })
  return [table.primaryKey, ...table.uniqueKeys].flatMap((columns): CodeList[] => {
    const [first, second, ...more] = columns
    if (first === undefined || more.length > 0) return []
    const words = toOwnWords(table.name)
    // `industry` of a table of industries is the label itself.
    const isLabel = splitIdentifier(first).every((word) => words.has(word))
    if (second === undefined) return isLabel ? [] : [{ ...listOf(first, sample), words }]
    return [
      [first, second],
      [second, first],
    ].flatMap(([column = '', key = '']) =>
      [...Map.groupBy(sample, (row) => textOf(row, column))].map(([value, rows]) => ({
        ...listOf(key, rows),
        table: { ...one, sample: rows, fields: listCandidateFields(table, rows) },
        only: { column, value },
        words: new Set(splitIdentifier(value).map(singularize)),
      })),
    )
  })
}
