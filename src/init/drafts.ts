import { type Draft, createDraftBase } from './draft.ts'
import { headNoun, singularize, splitIdentifier, toOwnWords, toWordSet } from './words.ts'
import { type ClassifiedSchema, type ClassifiedTable, relationsBetween, type Employer } from './classify.ts'
import type { InputName } from '../domain/mapping.ts'
import { type CandidateField, fieldSql, quoteIfNeeded } from './fields.ts'
import { type TableRelation, joinCondition, typeSql } from './relations.ts'
import { holdsAny, normalizedEmail } from './assign-roles.ts'
import { isSecondary, scoreName } from './roles.ts'
import { draftParts } from './part-drafts.ts'
import { exclusionConditions } from './flags.ts'
import { relatedFlags } from './related-flags.ts'
import {
  linkedCompanySql,
  relatedOptOutConditions,
  relatedRowExists,
  relatedRowSql,
  relatedValueSql,
} from './related-value.ts'

/** Every source that the tables may make: people, companies, then addresses of companies. Pure. */
export function draftSources(schema: ClassifiedSchema): Draft[] {
  const nameFor = createNamer()
  const drafts = schema.tables.flatMap((classified) => {
    const { kinds, table, partyType } = classified
    const isShared = kinds.length > 1
    return kinds.flatMap((kind) => {
      const isTold = isShared && (partyType !== null || kind === 'company')
      const suffix = kind === 'person' ? 'people' : 'companies'
      const isRepeated = schema.tables.some(
        (one) => one.table.name === table.name && one.table.sql !== table.sql && one.kinds.length > 0,
      )
      const own = isRepeated ? `${table.schema}_${table.name}` : table.name
      const name = nameFor(isTold ? `${own}_${suffix}` : own)
      if (kind === 'person') return [draftPeople(schema, classified, name)]
      const draft = draftCompanies(schema, classified, name)
      // Without a site, a person's row shows no company.
      const isTwice =
        !splitIdentifier(table.name).some((word) => word.startsWith('lead')) &&
        schema.tables.some((one) => one.kinds.join() === 'company')
      const isEmpty = isShared && partyType === null && (draft.inputs.domain === undefined || isTwice)
      return isEmpty ? [] : [draft]
    })
  })
  const people = drafts.filter((draft) => draft.base.kind === 'person')
  const parts = people.flatMap((draft) => draftParts(schema, draft, nameFor))
  const companies = drafts.filter((draft) => draft.base.kind === 'company')
  const addresses = schema.tables.flatMap((classified) => {
    const draft = draftAddresses(schema, classified, companies, (company) =>
      nameFor(`${singularize(company)}_${classified.table.name}`),
    )
    return draft === null ? [] : [draft]
  })
  return [...people, ...parts, ...companies, ...addresses]
}

/** Gives each source a unique name of letters, digits and `_`, as typed in commands. */
function createNamer(): (wanted: string) => string {
  const given = new Set<string>()
  return (wanted) => {
    const plain =
      wanted
        .replaceAll(/[^A-Za-z0-9_]+/g, '_')
        .replace(/^[^A-Za-z]+/, '')
        .slice(0, 50) || 'source'
    let name = plain
    for (let n = 2; given.has(name); n++) name = `${plain}_${n}`
    given.add(name)
    return name
  }
}

/** A table of people: candidate inputs and columns to fill. Pure. */
function draftPeople(schema: ClassifiedSchema, table: ClassifiedTable, name: string): Draft {
  const { person: roleFields, partyType } = table
  const work = findWorkplace(schema, table)
  const mail = emailSql(schema, table)
  const profile = roleFields.get('profile')
  const sideProfile = profile === undefined ? relatedValueSql(schema, table, 'profile') : null
  const fullName = fullNameSql(table)
  const company = roleFields.get('company_name')
  const inputs: Partial<Record<InputName, string>> = {
    ...(mail !== null && { email: mail }),
    ...(sideProfile !== null && { linkedin_url: sideProfile }),
    ...(fullName !== null && { name: fullName }),
    ...(work !== null && { company: work.name }),
  }
  return {
    base: createDraftBase(table, 'person', {
      name,
      joins: work?.joins ?? null,
      flags: relatedFlags(schema, table, 'person', { email: mail, employer: work?.employer ?? null }),
      where: [
        ...(partyType === null ? [] : [partyType.person('t')]),
        ...table.conditions,
        ...(mail?.startsWith('(select') === true ? relatedOptOutConditions(schema, table) : []),
      ],
    }),
    table,
    roleFields,
    inputs,
    fallbackInputs: { ...(profile && { profile }), ...(company && { company }) },
  }
}

/** The address in its normal form, where the user's program keeps it for each row that has one. */
function emailSql(schema: ClassifiedSchema, table: ClassifiedTable): string | null {
  const email = table.person.get('email')
  if (email === undefined || (email.values.length === 0 && table.sampled > 0))
    return relatedValueSql(schema, table, 'email') ?? (email ? fieldSql(email, 't') : null)
  const normal = normalizedEmail(table, email)
  const typed = fieldSql(email, 't')
  if (normal === undefined) return typed
  const sql = fieldSql(normal, 't')
  return normal.values.length >= email.values.length ? sql : `coalesce(nullif(btrim(${sql}), ''), ${typed})`
}

/** First and last name go before a single name column, which may hold a nickname or the reverse order. */
function fullNameSql({ person: roleFields }: ClassifiedTable): string | null {
  const [first, last] = [roleFields.get('first_name'), roleFields.get('last_name')]
  if (first && last) return `concat_ws(' ', ${fieldSql(first, 't')}, ${fieldSql(last, 't')})`
  const whole = roleFields.get('name')
  return whole === undefined ? null : fieldSql(whole, 't')
}

/** Where a person's company name is: in a companies table, reached by a key or through a link table. */
function findWorkplace(
  schema: ClassifiedSchema,
  classified: ClassifiedTable,
): { name: string; joins: string | null; employer: Employer | null } | null {
  const companies = schema.tables.filter(
    (one) =>
      one.kinds.includes('company') && one.company.has('name') && one.company.get('name') !== undefined,
  )
  const direct = companies
    .flatMap((company) =>
      relationsBetween(schema, classified, company).map((relation) => ({ company, relation })),
    )
    .map((one) => ({ ...one, points: scoreWorkRelation(one.relation) }))
    .filter((one) => one.points > 0)
    .sort((a, b) => b.points - a.points)
  const [best] = direct
  if (best) {
    const { company, relation } = best
    const isShared = company.partyType !== null && company.kinds.length > 1
    const conditions = [
      joinCondition(relation, 't', 'a'),
      ...(isShared && company.partyType !== null ? [company.partyType.company('a')] : []),
      ...exclusionConditions(company, 'a', 'employer'),
    ]
    return {
      name: fieldSql(companyNameField(company), 'a'),
      joins: `left join ${company.sqlName} a on ${conditions.join(' and ')}`,
      employer: isShared ? null : best,
    }
  }
  for (const company of companies) {
    const linked = linkedCompanySql(schema, classified, company, companyNameField(company))
    if (linked !== null) return { name: linked.sql, joins: null, employer: linked.employer }
  }
  return null
}

function companyNameField(company: ClassifiedTable): CandidateField {
  const field = company.company.get('name')
  if (field === undefined) throw new Error(`no name was picked for ${company.table.sql}`)
  return field
}

const WORK_WORDS = toWordSet('company organization org account employer parent business firm current')
const OTHER_RELATION_WORDS = toWordSet(
  'converted merged previous former old last invoice billing referrer reseller owner tenant workspace',
)

/** How strongly a key column points to the employer. */
function scoreWorkRelation({ columns }: TableRelation): number {
  const words = columns.flatMap((column) => splitIdentifier(quoteIfNeeded(column)))
  if (words.some((word) => OTHER_RELATION_WORDS.has(word)) && columns.length === 1) return 0
  return 1 + words.filter((word) => WORK_WORDS.has(word)).length
}

/** A table of companies. Pure. */
function draftCompanies(schema: ClassifiedSchema, table: ClassifiedTable, name: string): Draft {
  const { company: roleFields, partyType, kinds } = table
  const domain = roleFields.get('domain')
  const site = domain === undefined ? relatedValueSql(schema, table, 'domain') : siteSql(table, domain)
  const email = roleFields.get('email')
  const base = createDraftBase(table, 'company', {
    name,
    joins: null,
    flags: relatedFlags(schema, table, 'company'),
    where: [...(partyType === null ? [] : [partyType.company('t')]), ...table.conditions],
  })
  const inputs = site === null ? {} : { domain: site }
  if (kinds.length > 1 && partyType === null) {
    // Of a person's row, only what is certainly the company's: city and profile belong to the person, as the stamp does.
    const company = table.lookups.company.filter(({ role }) => !SHARED_ROLES.has(role))
    return {
      base: { ...base, freshness: null },
      table: { ...table, lookups: { ...table.lookups, company } },
      roleFields: new Map([...roleFields].filter(([role]) => !SHARED_ROLES.has(role))),
      inputs,
      fallbackInputs: {},
    }
  }
  const mail = email && `split_part(${emailSql(schema, table) ?? fieldSql(email, 't')}, '@', 2)`
  return { base, table, roleFields, inputs, fallbackInputs: mail === undefined ? {} : { mail } }
}

/** A domain and a site in two columns: the first of them that is filled. */
function siteSql(table: ClassifiedTable, domain: CandidateField): string {
  const own = toOwnWords(table.table.name)
  const other = table.fields.find(
    (field) =>
      field !== domain &&
      field.path.length === domain.path.length &&
      scoreName('domain', field.words, own) >= 75 &&
      holdsAny('domain', field.values) &&
      ![...table.company.values()].includes(field),
  )
  const first = fieldSql(domain, 't')
  return other === undefined ? first : `coalesce(nullif(btrim(${first}), ''), ${fieldSql(other, 't')})`
}

const SHARED_ROLES: ReadonlySet<string> = new Set([
  'city',
  'state',
  'country',
  'profile',
  'twitter',
  'email',
  'name',
])

const ADDRESS_WORDS = toWordSet('address location site office branch')

/** Whether a table lists addresses. */
export const isAddressList = ({ table }: Pick<ClassifiedTable, 'table'>): boolean =>
  ADDRESS_WORDS.has(headNoun(table.name))

/**
 * A separate table of company addresses. It reuses the company's lookup, so it costs no further call. Null if the
 * table is not one. Pure.
 * @param companies company sources, each with its domain expression over the table
 */
function draftAddresses(
  schema: ClassifiedSchema,
  table: ClassifiedTable,
  companies: readonly Draft[],
  name: (company: string) => string,
): Draft | null {
  // A company's place is that of its main address: not where its goods go.
  const isMain = ({ words }: CandidateField): boolean => !isSecondary(words)
  const roleFields = new Map([...table.company].filter(([, field]) => isMain(field)))
  const places = table.lookups.company.filter(({ field }) => isMain(field))
  if (table.kinds.length > 0 || isSecondary(splitIdentifier(table.table.name))) return null
  if (!roleFields.has('city') && !roleFields.has('country') && places.length === 0) return null
  if (table.table.uniqueKeys.length === 0) return null
  for (const company of companies) {
    const [relation] = relationsBetween(schema, table, company.table)
    const ofOwner = (sql: string): string => sql.replaceAll(/\bt\./g, 'a.')
    const domain = company.inputs.domain
    if (relation === undefined || domain === undefined) continue
    const isPart = relation.columns.join() === table.table.primaryKey.join() && roleFields.has('city')
    if (!isPart && !isAddressList(table)) continue
    const { type } = relation
    const owner = company.base.where
    const base = createDraftBase(table, 'company', {
      name: name(company.base.name),
      joins: null,
      where: [
        ...(type === null ? [] : [typeSql(type, 't')]),
        ...(owner === null ? [] : [relatedRowExists(relation, company.table, ofOwner(owner))]),
      ],
      context: 'address',
      doubts: company.base.doubts.map((doubt) => ({
        ...doubt,
        keep: relatedRowExists(relation, company.table, ofOwner(doubt.keep)),
      })),
    })
    return {
      base: {
        ...base,
        notes: [
          `Addresses of the companies in ${company.base.name}. They share its lookups, so they cost no further call. ` +
            'Check that these rows hold company headquarters only.',
          ...base.notes,
        ],
      },
      table: { ...table, lookups: { ...table.lookups, company: places } },
      roleFields: new Map([...roleFields].filter(([role]) => PLACE_ROLES.has(role))),
      inputs: { domain: relatedRowSql(relation, company.table, ofOwner(domain)) },
      fallbackInputs: {},
    }
  }
  return null
}

const PLACE_ROLES: ReadonlySet<string> = new Set(['city', 'state', 'country'])
