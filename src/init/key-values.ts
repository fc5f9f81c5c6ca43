import { type ClassifiedSchema, type ClassifiedTable, findHistoryWord } from './classify.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { labelsSql } from './flag-sql.ts'
import { findLabel } from './lookup-tables.ts'
import { splitIdentifier } from './words.ts'

/** One key of a table of keys and values, as if the rows that it belongs to had a column of that name. */
export interface KeyField {
  readonly field: CandidateField
  /** SQL: the rows `e` that have the key. */
  readonly is: string
}

const KEY =
  /(?:^|\b(?:meta|custom|extra|option|setting) )(?:key|attribute|attr|field|property|option)(?: (?:name|key|code|id|uuid|slug))?$/
const VALUE = /(?:^|\b)(?:value|val)$/
/** Whether rows have values beside their keys. */
export const holdsValues = ({ fields }: ClassifiedTable): boolean =>
  fields.some(({ words }) => VALUE.test(words.join(' ')))

/** More keys than this are no columns. */
const MAX_KEYS = 40

/** The keys of a table of keys and values: in a column of their own, or by the key of a table of fields. Empty if it is none. Pure. */
export function keyFields(schema: ClassifiedSchema, side: ClassifiedTable): KeyField[] {
  const { fields, sample, table } = side
  const own = fields.filter(({ path, column }) => path.length === 0 && column.canSelect)
  const values = own.filter(
    ({ words, fit }) => VALUE.test(words.join(' ')) && !/^(?:jsonb?|array)$/.test(fit.kind),
  )
  const key =
    own.find(({ words }) => KEY.test(words.join(' '))) ?? own.find(({ words }) => words.join() === 'name')
  if (values.length === 0 || key === undefined || findHistoryWord(table.name) !== undefined) return []
  const keys = [...new Set(key.values)]
  if (keys.length > MAX_KEYS || keys.length * 2 > key.values.length) return []
  const names = fieldNames(schema, side, key)
  return keys.flatMap((one) =>
    values.flatMap((value): KeyField[] => {
      const rows = sample.filter((row) => row[key.column.name] === one)
      const name = names.get(one) ?? one
      const texts = rows
        .map((row) => String(row[value.column.name] ?? ''))
        .filter((text) => text.trim() !== '')
      const field = { ...value, name: `${table.name}.${name}`, words: splitIdentifier(name), values: texts }
      const { labels: _, ...read } = field
      return texts.length === 0 ? [] : [{ field: read, is: labelsSql(fieldSql(key, 'e'), [one]) }]
    }),
  )
}

/** What the fields are called whose keys a column has: `custom_field_id`. */
function fieldNames(
  schema: ClassifiedSchema,
  side: ClassifiedTable,
  { column }: CandidateField,
): ReadonlyMap<string, string> {
  const pairs = schema.relations.flatMap(({ from, to, columns, targets: [target = ''] }) => {
    if (from.sqlName !== side.sqlName || columns.join() !== column.name) return []
    const name = findLabel({ to, targets: [target] })
    return name ? to.sample.map((row) => [String(row[target]), String(row[name.column.name])] as const) : []
  })
  return new Map(pairs)
}
