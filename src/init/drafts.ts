import { type Draft, createDraftBase } from './draft.ts'
import { splitIdentifier, toOwnWords } from './words.ts'
import { type ClassifiedSchema, type ClassifiedTable } from './classify.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { holdsAny } from './assign-roles.ts'
import { scoreName } from './roles.ts'
import { draftParts, isMirrored } from './part-drafts.ts'
import { relatedFlags } from './related-flags.ts'
import { quoteLiteral } from '../sources/quote.ts'
import { firstFilled, relatedValueSql } from './related-value.ts'
import { findWorkplace } from './workplace.ts'

/** A person reads at most seven tables beside those that are proposed. */
const MAX_POSSIBLE = 7

/** Every source that the tables may make: people, companies, and after each what belongs to their rows; then what may be meant. Pure. */
export function draftSources(schema: ClassifiedSchema): Draft[] {
  const { tables } = schema
  const nameFor = createNamer()
  const drafts = tables.flatMap((one) => draftTable(schema, one, nameFor))
  const certain = (['person', 'company'] as const).flatMap((kind) => {
    const owners = drafts.filter(({ base }) => base.kind === kind)
    return [...owners.filter((one) => !isMirrored(one)), ...draftParts(schema, owners, nameFor)]
  })
  const possible = tables
    .filter((one) => one.possible.length > 0)
    .toSorted((a, b) => (b.rows ?? 0) - (a.rows ?? 0))
    .slice(0, MAX_POSSIBLE)
    .flatMap((one) => {
      // As if a person had said that its rows are meant.
      const meant = { ...one, kinds: one.possible, isStaff: false }
      const others = { ...schema, tables: tables.map((other) => (other === one ? meant : other)) }
      return draftTable(others, meant, nameFor).map((draft) => ({
        ...draft,
        leftFor: one.rejection ?? UNTOLD,
      }))
    })
  return [...certain, ...possible]
}

const UNTOLD = 'its rows have addresses, and nothing says whose'

/** What the rows of one table make: people, companies, or both. */
function draftTable(
  schema: ClassifiedSchema,
  classified: ClassifiedTable,
  nameFor: (wanted: string, schema: string) => string,
): Draft[] {
  const { kinds, mirrored, table, partyType } = classified
  const isShared = kinds.length > 1
  return [...kinds, ...mirrored].flatMap((kind) => {
    const isTold = isShared && (partyType !== null || kind === 'company')
    const suffix = kind === 'person' ? '_people' : '_companies'
    const isRepeated = schema.tables.some(
      (one) => one !== classified && one.kinds.length > 0 && one.table.name === table.name,
    )
    const own = isRepeated ? `${table.schema}_${table.name}` : table.name
    const name = nameFor(`${own}${isTold ? suffix : ''}`, table.schema)
    if (kind === 'person') return [draftPeople(schema, classified, name)]
    const draft = draftCompanies(schema, classified, name)
    // Without a site, a person's row shows no company.
    const isTwice =
      !splitIdentifier(table.name).some((word) => word.startsWith('lead')) &&
      schema.tables.some((one) => one.kinds.join() === 'company')
    const isEmpty = isShared && partyType === null && (draft.inputs.domain === undefined || isTwice)
    return isEmpty ? [] : [draft]
  })
}

/** Gives each source a unique name of letters, digits and `_`, as typed in commands. */
function createNamer(): (wanted: string, schema: string) => string {
  const given = new Set<string>()
  return (wanted, schema) => {
    const plain = (name: string): string =>
      name
        .replaceAll(/[^A-Za-z0-9_]+/g, '_')
        .replace(/^[^A-Za-z]+/, '')
        .slice(0, 50) || 'source'
    const first = plain(given.has(plain(wanted)) ? `${schema}_${wanted}` : wanted)
    let name = first
    for (let n = 2; given.has(name); n++) name = `${first}_${n}`
    given.add(name)
    return name
  }
}

/** A table of people: what identifies its rows, and columns to fill. Pure. */
function draftPeople(schema: ClassifiedSchema, table: ClassifiedTable, name: string): Draft {
  const { person: roleFields, partyType } = table
  const work = findWorkplace(schema, table)
  const mail = emailSql(schema, table)
  const [profile, own] = [roleFields.get('profile'), roleFields.get('company_name')]
  const profileUrl = profile ? fieldSql(profile, 't') : relatedValueSql(schema, table, 'profile')
  const company = firstFilled(work?.name ?? null, own ? companySql(own) : null)
  // A name alone identifies no one.
  const fullName = company === null ? null : fullNameSql(table)
  const names = (['first_name', 'last_name', 'name'] as const).map((role) => roleFields.get(role))
  const readFields = [roleFields.get('email'), profile, ...(fullName === null ? [] : [...names, own])]
  return {
    base: createDraftBase(table, 'person', {
      name,
      joins: fullName === null ? null : (work?.joins ?? null),
      flags: relatedFlags(schema, table, 'person', mail, work?.employer),
      where: partyType === null ? [] : [partyType.person('t')],
    }),
    table,
    leftFor: null,
    roleFields,
    inputs: {
      ...(mail !== null && { email: mail }),
      ...(profileUrl !== null && { linkedin_url: profileUrl }),
      ...(fullName !== null && company !== null && { name: fullName, company }),
    },
    inputFields: new Set(readFields.filter((field) => field !== undefined)),
  }
}

/** `[not provided]`, `n/a`: what a form demands where there is no company. */
const NO_COMPANY = /^\W*(?:not provided|unknown|none|n\W?a|no company|not applicable|self|private)\W*$/i

/** A company's name, without what stands for none. */
const companySql = (field: CandidateField): string =>
  [...new Set(field.values.filter((value) => NO_COMPANY.test(value)))]
    .toSorted()
    .reduce((sql, value) => `nullif(${sql}, ${quoteLiteral(value)})`, fieldSql(field, 't'))

/** Whether the rows have it, as far as they show; otherwise it may be in another table. */
const isHeld = (
  role: 'email' | 'domain',
  { values }: CandidateField,
  { sampled }: ClassifiedTable,
): boolean => sampled === 0 || holdsAny(role, values)

/** A person's address, in its normal form where the user's program keeps it, in another table where the rows have none. */
function emailSql(schema: ClassifiedSchema, table: ClassifiedTable): string | null {
  const email = table.person.get('email')
  const normal = table.fields.find(
    ({ words, fit, path }) =>
      path.length === 0 && fit.kind === 'text' && words.includes('email') && words.includes('normalized'),
  )
  const typed = email ? fieldSql(email, 't') : null
  const own = normal === undefined ? typed : firstFilled(fieldSql(normal, 't'), typed)
  return email && isHeld('email', email, table) ? own : (relatedValueSql(schema, table, 'email') ?? own)
}

/** First and last name go before a single name column, which may hold a nickname or the reverse order. */
function fullNameSql({ person: roleFields, fields }: ClassifiedTable): string | null {
  const [first, last] = [roleFields.get('first_name'), roleFields.get('last_name')]
  // `van der` has a column of its own in the Netherlands.
  const infix = fields.find(({ words, path }) => path.length === 0 && words.join() === 'infix')
  if (first && last) {
    const parts = [first, ...(infix ? [infix] : []), last].map((part) => fieldSql(part, 't'))
    return `concat_ws(' ', ${parts.join(', ')})`
  }
  const whole = roleFields.get('name')
  return whole === undefined ? null : fieldSql(whole, 't')
}

/** A table of companies. Pure. */
function draftCompanies(schema: ClassifiedSchema, table: ClassifiedTable, name: string): Draft {
  const { company, partyType, kinds } = table
  const [domain, email] = [company.get('domain'), company.get('email')]
  const own = domain ? siteSql(table, domain) : null
  const site = domain && isHeld('domain', domain, table) ? own : relatedValueSql(schema, table, 'domain')
  // Of a person's row, what is the person's is not the company's: the address, the profile, the stamp.
  const isOfPerson = kinds.length > 1 && partyType === null
  const roleFields = new Map([...company].filter(([role]) => !isOfPerson || !PERSONAL_ROLES.has(role)))
  const mail = email && !isOfPerson ? (emailSql(schema, table) ?? fieldSql(email, 't')) : null
  const host = mail === null ? null : `split_part(${mail}, '@', 2)`
  const input = site ?? firstFilled(own, host)
  const base = createDraftBase(table, 'company', {
    name,
    joins: null,
    flags: relatedFlags(schema, table, 'company', input),
    where: partyType === null ? [] : [partyType.company('t')],
  })
  return {
    base: isOfPerson ? { ...base, freshness: null } : base,
    table,
    leftFor: null,
    roleFields,
    inputs: input === null ? {} : { domain: input },
    inputFields: new Set([domain, email].filter((field) => field !== undefined)),
  }
}

const PERSONAL_ROLES: ReadonlySet<string> = new Set(['profile', 'twitter', 'email', 'name'])

/** A domain and a site in two columns: the first of them that is filled. */
function siteSql(table: ClassifiedTable, domain: CandidateField): string | null {
  const own = toOwnWords(table.table.name)
  const other = table.fields.find(
    (field) =>
      field !== domain &&
      field.path.length === domain.path.length &&
      scoreName('domain', field.words, own) >= 75 &&
      holdsAny('domain', field.values) &&
      ![...table.company.values()].includes(field),
  )
  return firstFilled(fieldSql(domain, 't'), other ? fieldSql(other, 't') : null)
}
