import { type ClassifiedSchema, relationsBetween } from './classify.ts'
import { exclusionConditions, optOutLabels } from './exclusions.ts'
import { fieldSql } from './fields.ts'
import { singularize, splitIdentifier } from './identifier-words.ts'
import type { IntrospectedTable } from './introspect.ts'
import { joinCondition } from './relations.ts'
import { labelsSql } from './staff.ts'

const SUPPRESSION_WORDS =
  /\b(?:no (?:contact|call|email|mail)|donotcontact|dnc|blacklist|blocklist|suppression|suppressed|unsubscribe|unsubscribed|unsubscription|opt out)\b/

/** Whether a table lists people who must not be contacted: `lead_donotcontact`, `mail_blacklist`. */
export const isSuppressionName = (table: string): boolean =>
  SUPPRESSION_WORDS.test(splitIdentifier(table).map(singularize).join(' '))

/** Conditions that leave out rows on a list of people who must not be contacted. Pure. */
export function suppressionConditions(
  table: IntrospectedTable,
  schema: ClassifiedSchema,
  email: string | null,
): string[] {
  return schema.tables.flatMap((list) => {
    if (!isSuppressionName(list.table.name) || list.table.sql === table.table.sql) return []
    const alive = exclusionConditions(list, 'd', 'link')
    const [relation] = relationsBetween(schema, list, table)
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
export function subscriptionConditions(table: IntrospectedTable, schema: ClassifiedSchema): string[] {
  return schema.tables.flatMap((list) => {
    if (list.kinds.length > 0 || list.table.sql === table.table.sql || isSuppressionName(list.table.name))
      return []
    const [relation] = relationsBetween(schema, list, table)
    if (relation === undefined) return []
    return list.fields.flatMap((field) => {
      const labels = optOutLabels(field, list)
      if (labels.length === 0) return []
      const said = labelsSql(fieldSql(field, 'd'), labels)
      return [
        `not exists (select from ${list.sqlName} d where ${joinCondition(relation, 'd', 't')} and ${said})`,
      ]
    })
  })
}
