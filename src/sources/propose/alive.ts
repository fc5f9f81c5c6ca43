import type { Column } from '../catalogue.ts'
import { readField, type Field } from './field.ts'
import type { Surveyed } from './survey.ts'
import { wordsOf } from './words.ts'

/** What rows are that a condition is wanted for: of some things a word says that they are no more, of others it doesn't. */
type Thing = 'row' | 'address' | 'link'

const GONE = new Set('deleted removed archived trashed discarded anonymized erased voided'.split(' '))
const GONE_TOO: Readonly<Record<Thing, ReadonlySet<string>>> = {
  row: new Set(),
  address: new Set(['invalid', 'bounced', 'undeliverable']),
  link: new Set(['ended', 'left', 'end', 'expired', 'until', 'invalid']),
}
const WHEN = new Set(['at', 'on', 'date', 'time', 'is'])

/**
 * Conditions for the rows that are not deleted, archived or erased, out of the columns that such systems have for it:
 * `deleted_at`, `is_deleted`, `archived`, `active`. Pure.
 */
export function aliveConditions(
  { fields }: Pick<Surveyed, 'fields'>,
  alias: string,
  of: Thing = 'row',
): string[] {
  return fields.flatMap((field) => {
    if (field.path.length > 0) return []
    const condition = aliveCondition(field, readField(field, alias), of)
    return condition === null ? [] : [condition]
  })
}

function aliveCondition(field: Field, sql: string, of: Thing): string | null {
  const [word, ...others] = field.words.filter((one) => !WHEN.has(one))
  if (word === undefined || others.length > 0) return null
  const { kind } = field.fit
  if (word === 'active') return kind === 'boolean' ? whenTrue(field.column, sql) : null
  if (!GONE.has(word) && !GONE_TOO[of].has(word)) return null
  switch (kind) {
    case 'timestamp':
    case 'timestamptz':
    case 'date':
      return `${sql} is null`
    case 'boolean':
      return field.column.notNull ? `not ${sql}` : `${sql} is not true`
    case 'integer':
      // 0 and 1 as true and false; anything else is a time or a counter.
      if (field.values.some((value) => value !== '0' && value !== '1')) return null
      return field.column.notNull ? `${sql} = 0` : `coalesce(${sql}, 0) = 0`
    default:
      return null
  }
}

const whenTrue = (column: Column, sql: string): string => (column.notNull ? sql : `${sql} is not false`)

/** The column that moves when a row changes, where there is one. Pure. */
export function changeColumn({ table }: Pick<Surveyed, 'table'>): Column | null {
  const found = table.columns.find(({ name, type }) => {
    const { kind } = type.fit
    return (kind === 'timestamptz' || kind === 'timestamp') && CHANGED.has(wordsOf(name).join(' '))
  })
  return found ?? null
}

const CHANGED = new Set(
  [
    'updated',
    'modified',
    'changed',
    'last updated',
    'last modified',
    'last changed',
    'date modified',
    'date updated',
    'write',
  ].flatMap((words) => [words, `${words} at`, `${words} on`, `${words} date`, `${words} time`]),
)

/** Columns that set one tenant's rows apart from another's, where the sample does not show that there is but one. Pure. */
export const tenantColumns = (
  { fields }: Pick<Surveyed, 'fields'>,
  references: ReadonlySet<string>,
): string[] =>
  fields
    .filter(({ path, words }) => path.length === 0 && TENANT.test(words.join(' ')))
    // An organization is the tenant in some systems, and in others the company where somebody works.
    .filter(({ name, words }) => words[0] === 'tenant' || !references.has(name))
    .filter(({ values }) => new Set(values).size !== 1)
    .map((field) => field.name)

const TENANT = /^(?:tenant|workspace|organization|org|team|instance|realm)(?: id| uuid| key)$/
