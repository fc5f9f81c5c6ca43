import { quoteLiteral } from '../sources/quote.ts'
import type { ClassifiedSchema } from './classify.ts'
import { exclusionConditions, optOutLabels } from './exclusions.ts'
import { fieldSql } from './fields.ts'
import { singularize, splitIdentifier } from './identifier-words.ts'
import type { IntrospectedTable } from './introspect.ts'
import { joinCondition } from './relations.ts'

const SUPPRESSION_WORDS =
  /\b(?:no (?:contact|call|email|mail)|donotcontact|dnc|blacklist|blocklist|suppression|suppressed|unsubscribe|unsubscribed|unsubscription|opt out)\b/

/** Whether a table lists people who must not be contacted: `lead_donotcontact`, `mail_blacklist`. */
export const isSuppressionName = (table: string): boolean =>
  SUPPRESSION_WORDS.test(splitIdentifier(table).map(singularize).join(' '))

/** Conditions that leave out rows on a list of people who must not be contacted. Pure. */
export function suppressionConditions(
  table: IntrospectedTable,
  { tables, relations }: ClassifiedSchema,
  email: string | null,
): string[] {
  return tables.flatMap((list) => {
    if (!isSuppressionName(list.table.name) || list.table.sql === table.table.sql) return []
    const alive = exclusionConditions(list, 'd', 'link')
    const relation = relations.find(
      (one) => one.from.table.sql === list.table.sql && one.to.table.sql === table.table.sql,
    )
    const address = list.fields.find(
      ({ words, path, fit }) => path.length === 0 && fit.kind === 'text' && words.includes('email'),
    )
    const same =
      relation !== undefined
        ? joinCondition(relation, 'd', 't')
        : address && email !== null
          ? `lower(${fieldSql(address, 'd')}) = lower(btrim(${email}))`
          : null
    if (same === null) return []
    return [`not exists (select from ${list.sqlName} d where ${[same, ...alive].join(' and ')})`]
  })
}

/** Conditions that leave out people who have unsubscribed, where subscriptions are rows of another table. Pure. */
export function subscriptionConditions(
  table: IntrospectedTable,
  { tables, relations }: ClassifiedSchema,
): string[] {
  return tables.flatMap((list) => {
    if (list.kinds.length > 0 || list.table.sql === table.table.sql || isSuppressionName(list.table.name))
      return []
    const relation = relations.find(
      (one) => one.from.table.sql === list.table.sql && one.to.table.sql === table.table.sql,
    )
    if (relation === undefined) return []
    return list.fields.flatMap((field) => {
      const labels = optOutLabels(field, list).map(quoteLiteral)
      if (labels.length === 0) return []
      const [first = '', ...more] = labels
      const said = `${fieldSql(field, 'd')} ${more.length === 0 ? `= ${first}` : `in (${labels.join(', ')})`}`
      return [
        `not exists (select from ${list.sqlName} d where ${joinCondition(relation, 'd', 't')} and ${said})`,
      ]
    })
  })
}
