import { type CandidateField, fieldSql } from './fields.ts'
import { findHistoryWord, relationsBetween, type ClassifiedSchema, type ClassifiedTable } from './classify.ts'
import { type Draft, createDraftBase } from './draft.ts'
import { type TableRelation, hasSameKey, joinCondition } from './relations.ts'
import { type ColumnRole, PLACE_ROLES, isSecondary, rolesOf } from './roles.ts'
import { firstFilled } from './related-value.ts'
import { singularize, splitIdentifier } from './words.ts'

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
 * Sources for tables whose rows belong to those of others: further columns with the same key, the link to a company with
 * the job there, the address of a company. They share the lookups of their owners, so they cost no further call. Pure.
 */
export function draftParts(
  schema: ClassifiedSchema,
  owners: readonly Draft[],
  nameFor: (wanted: string, schema: string) => string,
): Draft[] {
  return schema.tables.flatMap((part) => {
    const { table } = part
    if (part.kinds.length > 0 || part.isStaff || table.uniqueKeys.length === 0 || table.kind !== 'table')
      return []
    if (findHistoryWord(table.name) !== undefined) return []
    return owners.flatMap((owner) => {
      const [relation] = relationsBetween(schema, part, owner.table)
      if (relation === undefined) return []
      const made = draftPart(part, owner, relation, partRoles(schema, owner, part, relation))
      if (made === null) return []
      const before = owner.base.kind === 'company' ? `${singularize(owner.base.name)}_` : ''
      return [{ ...made, base: { ...made.base, name: nameFor(`${before}${table.name}`, table.schema) } }]
    })
  })
}

function draftPart(
  part: ClassifiedTable,
  owner: Draft,
  relation: TableRelation,
  roles: readonly ColumnRole[],
): Draft | null {
  const { base, inputs, table } = owner
  const { kind } = base
  // A company's place is that of its main address: not where its goods go.
  const isUsed = (role: ColumnRole, { words }: CandidateField): boolean =>
    roles.includes(role) && (kind === 'person' || !isSecondary(words))
  const fields = new Map([...part[kind]].filter(([role, field]) => isUsed(role, field)))
  const lookups = part.lookups[kind].filter(({ role, field }) => isUsed(role, field))
  if (fields.size + lookups.length === 0) return null
  const ofOwner = (sql: string): string => sql.replaceAll(/\bt\./g, 'o.')
  const profile = kind === 'person' ? fields.get('profile') : undefined
  const moved: Draft['inputs'] = Object.fromEntries(
    Object.entries(inputs).map(([input, sql]) => [input, ofOwner(sql)]),
  )
  if (Object.keys(moved).length === 0) return null
  const profileUrl = firstFilled(profile ? fieldSql(profile, 't') : null, moved.linkedin_url ?? null)
  const made = createDraftBase(part, kind, {
    name: part.table.name,
    joins: [
      `join ${table.sqlName} o on ${joinCondition(relation, 't', 'o')}`,
      ...(base.joins === null ? [] : [ofOwner(base.joins)]),
    ].join('\n'),
    where: base.where === null ? [] : [ofOwner(base.where)],
    doubts: base.doubts.map((doubt) => ({ ...doubt, keep: ofOwner(doubt.keep) })),
    context: isMirrored(owner) ? kind : kind === 'person' ? 'link' : 'address',
  })
  return {
    // A change of the owner does not show in the part's own stamp.
    base: {
      ...made,
      changedAt: null,
      notes: [
        isMirrored(owner)
          ? `Its rows are those of ${table.sqlName}, which is not written.`
          : `Part of ${base.name}: it shares the lookups, which cost nothing more.`,
      ],
    },
    leftFor: null,
    table: { ...part, lookups: { ...part.lookups, [kind]: lookups } },
    roleFields: fields,
    inputs: { ...moved, ...(profileUrl !== null && { linkedin_url: profileUrl }) },
    inputFields: new Set(profile ? [profile] : []),
  }
}

/** Whether it is no source itself: its table cannot be written. */
export const isMirrored = ({ table }: Draft): boolean => table.mirrored.length > 0

/** The roles that a table may have as a part of others. */
function partRoles(
  schema: ClassifiedSchema,
  owner: Draft,
  part: ClassifiedTable,
  relation: TableRelation,
): readonly ColumnRole[] {
  const { table } = part
  const isSameRow = hasSameKey(relation)
  // What is known of a mirror's row is kept beside it.
  if (isSameRow && isMirrored(owner)) return rolesOf(owner.base.kind)
  if (owner.base.kind === 'company') {
    const isPart = isSameRow && part.company.has('city') && !isSecondary(splitIdentifier(table.name))
    return isPart ? PLACE_ROLES : []
  }
  if (relation.type !== null) return []
  const isJob = schema.tables.some(
    (company) => company.kinds.includes('company') && relationsBetween(schema, part, company).length > 0,
  )
  const isLink = table.columns.length <= 12 && table.columns.length > relation.columns.length
  const roles = isSameRow ? PART_ROLES : isJob && isLink ? JOB_ROLES : []
  return roles.filter((role) => !owner.roleFields.has(role))
}
