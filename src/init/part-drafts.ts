import { fieldSql } from './fields.ts'
import { findHistoryWord, relationsBetween, type ClassifiedSchema, type ClassifiedTable } from './classify.ts'
import { type Draft, createDraftBase } from './draft.ts'
import { joinCondition } from './relations.ts'
import type { ColumnRole } from './roles.ts'

/** What a row that belongs to a person may hold: further columns, or the job at one company. */
const PART_ROLES: readonly ColumnRole[] = [
  'title',
  'seniority',
  'department',
  'phone',
  'profile',
  'company_name',
]
const JOB_ROLES: readonly ColumnRole[] = ['title', 'seniority', 'department']

/**
 * Sources for tables whose rows belong to the people of another: a table of further columns with the same key, or the
 * link to a company with the job there. They share the lookups of the people, so they cost no further call. Pure.
 */
export function draftParts(
  schema: ClassifiedSchema,
  owner: Draft,
  nameFor: (wanted: string) => string,
): Draft[] {
  return schema.tables.flatMap((part) => {
    const roles = partRoles(schema, owner, part)
    const fields = new Map([...part.person].filter(([role]) => roles.includes(role)))
    const [relation] = relationsBetween(schema, part, owner.table)
    if (fields.size === 0 || relation === undefined) return []
    const { base, inputs, fallbackInputs } = owner
    const ofOwner = (sql: string): string => sql.replaceAll(/\bt\./g, 'o.')
    const profile = fields.get('profile')
    const company = inputs.company ?? (fallbackInputs.company && fieldSql(fallbackInputs.company, 't'))
    const ownProfile =
      inputs.linkedin_url ?? (fallbackInputs.profile && fieldSql(fallbackInputs.profile, 't'))
    const moved = Object.fromEntries(
      Object.entries({ ...inputs, company, linkedin_url: profile ? undefined : ownProfile }).flatMap(
        ([input, sql]) => (sql === undefined ? [] : [[input, ofOwner(sql)]]),
      ),
    )
    const made = createDraftBase(part, 'person', {
      name: nameFor(part.table.name),
      joins: [
        `join ${owner.table.sqlName} o on ${joinCondition(relation, 't', 'o')}`,
        ...(base.joins === null ? [] : [ofOwner(base.joins)]),
      ].join('\n'),
      where: base.where === null ? [] : [ofOwner(base.where)],
      doubts: base.doubts.map((doubt) => ({ ...doubt, keep: ofOwner(doubt.keep) })),
      context: 'link',
    })
    return [
      {
        // A change of the owner does not show in the part's own stamp.
        base: {
          ...made,
          changedAt: null,
          notes: [`Part of ${base.name}: it shares the lookups, which cost nothing more.`],
        },
        table: part,
        roleFields: fields,
        inputs: moved,
        fallbackInputs: profile ? { profile } : {},
      },
    ]
  })
}

function partRoles(schema: ClassifiedSchema, owner: Draft, part: ClassifiedTable): readonly ColumnRole[] {
  const { table } = part
  const [relation] = relationsBetween(schema, part, owner.table)
  const isUsable = part.kinds.length === 0 && table.uniqueKeys.length > 0 && table.kind === 'table'
  if (relation === undefined || relation.type !== null || !isUsable || findHistoryWord(table.name) !== null)
    return []
  if (relation.columns.join() === table.primaryKey.join())
    return PART_ROLES.filter((role) => !owner.roleFields.has(role))
  const isJob = schema.tables.some(
    (company) => company.kinds.includes('company') && relationsBetween(schema, part, company).length > 0,
  )
  const { columns } = relation
  const isLink = table.columns.length <= 12 && table.columns.length > columns.length
  return isJob && isLink ? JOB_ROLES.filter((role) => !owner.roleFields.has(role)) : []
}
