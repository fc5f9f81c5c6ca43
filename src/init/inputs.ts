import type { InputName, SourceKind } from '../domain/mapping.ts'
import { type Draft, listOtherColumns, proposeOutputs } from './draft.ts'
import type { InputSample, ProposedSource } from './proposal.ts'
import { type RawInputs, chooseLookup } from '../domain/identifiers/choose.ts'
import { holdsAny } from './assign-roles.ts'
import { joinConditions, toQuestions } from './questions.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { type Db, query } from '../sources/db.ts'
import { quoteLiteral } from '../sources/quote.ts'
import { spreadOrderSql, tableSampleSql } from './introspect.ts'

/**
 * Chooses the inputs by what they yield on sampled rows. A profile or a company name becomes an input if it
 * identifies rows that have no email address, and is filled otherwise. Pure.
 * @returns the source, or the reason why there is none
 */
export function chooseInputs(draft: Draft, rows: readonly MeasuredRow[]): ProposedSource | string {
  const chosen =
    draft.base.kind === 'person' ? choosePersonInputs(draft, rows) : chooseCompanyInputs(draft, rows)
  const inputs = (Object.entries(chosen.inputs) as Array<[InputName, string]>).map(([input, sql]) => ({
    input,
    sql,
  }))
  if (inputs.length === 0)
    return draft.base.kind === 'person'
      ? 'nothing identifies its rows: no email address, no profile, no name with a company'
      : 'nothing identifies its rows: no site, no domain, no email address'
  const { doubts, ...base } = draft.base
  const sample = summarizeSample(base.kind, rows, chosen.read)
  if (rows.length > 0 && Object.keys(sample.identifiedBy).length === 0)
    return `none of ${rows.length} sampled rows has a usable ${inputs.map((one) => one.input).join(', ')}`
  const { outputs, skippedColumns } = proposeOutputs(draft, chosen.fields)
  const taken = new Set([...outputs, ...skippedColumns].map(({ column }) => column))
  const otherColumns = listOtherColumns(draft, taken)
  const leftOut = doubts.map((_, n) => rows.filter(({ kept }) => kept[n] !== true).length)
  const { questions, conditions } = toQuestions(doubts, leftOut, rows.length)
  return {
    ...base,
    where: joinConditions([base.where, ...conditions]),
    joins: chosen.joins,
    inputs,
    outputs,
    skippedColumns,
    otherColumns,
    questions,
    sample,
  }
}

/** Why a source without outputs is none. */
export const describeUnfilled = ({ skippedColumns }: Pick<ProposedSource, 'skippedColumns'>): string =>
  ['it has no column to fill', skippedColumns.map(({ column, reason }) => `${column} ${reason}`).join(', ')]
    .filter((text) => text !== '')
    .join(': ')

/** A fillable column becomes an input if it identifies at least this share of the sampled rows. */
const MIN_COVERAGE = 0.05

/** The inputs chosen for a draft. */
interface InputChoice {
  readonly inputs: Partial<Record<InputName, string>>
  /** Fields that the inputs read. */
  readonly fields: ReadonlySet<CandidateField>
  readonly joins: string | null
  /** The values of the chosen inputs in a sampled row. */
  readonly read: (row: MeasuredRow) => RawInputs
}

const NO_INPUTS: RawInputs = {
  email: null,
  linkedin_url: null,
  name: null,
  company: null,
  domain: null,
}

const isBlankText = (value: string | null): boolean => value === null || value.trim() === ''

/** The website, with the email address's domain as a fallback if the website is missing in enough rows. Pure. */
function chooseCompanyInputs(draft: Draft, rows: readonly MeasuredRow[]): InputChoice {
  const { inputs, fallbackInputs, base, roleFields } = draft
  const fields = new Set(
    [roleFields.get('domain'), roleFields.get('email')].filter((field) => field !== undefined),
  )
  const chosen = (domain: string | undefined, read: (row: MeasuredRow) => string | null): InputChoice => ({
    inputs: domain === undefined ? {} : { domain },
    fields,
    joins: base.joins,
    read: (row) => ({ ...NO_INPUTS, domain: read(row) }),
  })
  const site = chosen(inputs.domain, (row) => row.domain)
  if (fallbackInputs.mail === undefined) return site
  if (inputs.domain === undefined) return chosen(fallbackInputs.mail, (row) => row.mail)
  const both = chosen(`coalesce(nullif(btrim(${inputs.domain}), ''), ${fallbackInputs.mail})`, (row) =>
    isBlankText(row.domain) ? row.mail : row.domain,
  )
  const countDomains = (one: InputChoice): number =>
    summarizeSample('company', rows, one.read).identifiedBy['domain'] ?? 0
  return countDomains(both) - countDomains(site) > rows.length * MIN_COVERAGE ? both : site
}

/**
 * A profile or a company name identifies rows without an email address; if it hardly does, it is filled instead.
 * Pure.
 */
function choosePersonInputs(draft: Draft, rows: readonly MeasuredRow[]): InputChoice {
  const { inputs, fallbackInputs, base } = draft
  const used = new Set<CandidateField>()
  const email = draft.roleFields.get('email')
  if (inputs.email !== undefined && email) used.add(email)
  const countIdentified = (read: InputChoice['read']): Record<string, number> =>
    summarizeSample('person', rows, read).identifiedBy
  const byEmail = (row: MeasuredRow): RawInputs => ({
    ...NO_INPUTS,
    email: row.email,
    linkedin_url: row.linkedin_url,
  })
  const byProfile = (row: MeasuredRow): RawInputs => ({
    ...byEmail(row),
    linkedin_url: row.linkedin_url ?? row.profile,
  })

  const profiles = countIdentified(byProfile)['linkedin_url'] ?? 0
  const isProfileInput =
    fallbackInputs.profile !== undefined &&
    (inputs.email === undefined || profiles > 0 || holdsAny('profile', fallbackInputs.profile.values))
  const before = isProfileInput ? byProfile : byEmail

  const hasName = inputs.name !== undefined
  const work = chooseCompany(draft, rows)
  const isNamed = hasName && work !== null
  if (fallbackInputs.profile && isProfileInput) used.add(fallbackInputs.profile)
  if (isNamed && work.usesField && fallbackInputs.company) used.add(fallbackInputs.company)
  const nameFields = (['first_name', 'last_name', 'name'] as const).map((role) => draft.roleFields.get(role))
  if (isNamed) for (const field of nameFields) if (field) used.add(field)
  return {
    inputs: {
      ...(inputs.email !== undefined && { email: inputs.email }),
      ...(inputs.linkedin_url !== undefined && { linkedin_url: inputs.linkedin_url }),
      ...(fallbackInputs.profile &&
        isProfileInput && { linkedin_url: fieldSql(fallbackInputs.profile, 't') }),
      ...(isNamed && inputs.name !== undefined && { name: inputs.name, company: work.sql }),
    },
    fields: used,
    joins: isNamed && work.usesJoin ? base.joins : null,
    read: (row) => (isNamed ? { ...before(row), name: row.name, company: work.read(row) } : before(row)),
  }
}

/** `[not provided]`, `n/a`: what a form demands where there is no company. */
const NO_COMPANY = /^\W*(?:not provided|unknown|none|n\W?a|no company|not applicable|self|private)\W*$/i

/** A company's name, without what stands for none. */
const companySql = (field: CandidateField): string =>
  [...new Set(field.values.filter((value) => NO_COMPANY.test(value)))]
    .toSorted()
    .reduce((sql, value) => `nullif(${sql}, ${quoteLiteral(value)})`, fieldSql(field, 't'))

interface CompanyChoice {
  readonly sql: string
  readonly usesJoin: boolean
  readonly usesField: boolean
  readonly read: (row: MeasuredRow) => string | null
}

/** The company name: from the related row, from a column, or from the first of them that is set. */
function chooseCompany(
  { inputs, fallbackInputs }: Draft,
  rows: readonly MeasuredRow[],
): CompanyChoice | null {
  const plain = fallbackInputs.company && companySql(fallbackInputs.company)
  if (inputs.company !== undefined) {
    const alone = {
      sql: inputs.company,
      usesJoin: true,
      usesField: false,
      read: (row: MeasuredRow) => row.company,
    }
    const isMissed = rows.some((row) => isBlankText(row.company) && !isBlankText(row.employer))
    return plain === undefined || !isMissed
      ? alone
      : {
          sql: `coalesce(${inputs.company}, nullif(btrim(${plain}), ''))`,
          usesJoin: true,
          usesField: true,
          read: (row) => row.company ?? row.employer,
        }
  }
  if (plain === undefined) return null
  const read = (row: MeasuredRow): string | null => row.employer
  const isAlone = inputs.email === undefined && fallbackInputs.profile === undefined
  const named = rows.filter((row) => !isBlankText(row.name) && !isBlankText(row.employer)).length
  const isWorth = isAlone || named > rows.length * MIN_COVERAGE
  return isWorth ? { sql: plain, usesJoin: false, usesField: true, read } : null
}

/** One row's inputs and candidate inputs. */
export interface MeasuredRow extends RawInputs {
  readonly profile: string | null
  readonly employer: string | null
  readonly mail: string | null
  /** Whether it stays by each of the draft's doubts. */
  readonly kept: readonly (boolean | null)[]
}

/** What few rows have would be missing among fewer. */
const MEASURED_ROWS = 1_000

/** Evaluates the expressions of a draft on a sample of at most 1,000 rows. */
export async function measureInputs(db: Db, draft: Draft): Promise<readonly MeasuredRow[]> {
  const { base, table, inputs, fallbackInputs } = draft
  const names: readonly InputName[] = ['email', 'linkedin_url', 'name', 'company', 'domain']
  const list = [
    ...names.map((name) => [inputs[name], name] as const),
    [fallbackInputs.profile && fieldSql(fallbackInputs.profile, 't'), 'profile'] as const,
    [fallbackInputs.company && companySql(fallbackInputs.company), 'employer'] as const,
    [fallbackInputs.mail, 'mail'] as const,
  ]
  const kept = base.doubts.map(({ keep }) => keep).join(', ')
  const columns = [
    ...list.map(([sql, name]) => `${sql === undefined ? 'null' : `(${sql})`}::text as ${name}`),
    `array[${kept}]::boolean[] as kept`,
  ]
  const read = (spread: string, order = ''): Promise<readonly MeasuredRow[]> =>
    query(
      db,
      `select ${columns.join(', ')} from ${table.table.sql} as t ${spread} ${base.joins ?? ''}
        where ${base.where ?? 'true'} ${order} limit ${MEASURED_ROWS}`,
    )
  const spread = tableSampleSql(base.rows, MEASURED_ROWS)
  // Without an order, the first of the sampled pages alone would be read.
  const rows = spread === null ? [] : await read(spread, 'order by md5(t.ctid::text)')
  return rows.length >= MEASURED_ROWS / 2 ? rows : read('', await spreadOrderSql(db, table.table))
}

/** Counts which identifier each row would be looked up by. Pure. */
function summarizeSample(
  kind: SourceKind,
  rows: readonly MeasuredRow[],
  inputs: (row: MeasuredRow) => RawInputs,
): InputSample {
  const identifiedBy: Record<string, number> = {}
  for (const row of rows) {
    const lookup = chooseLookup(kind, inputs(row)).lookup?.kind
    if (lookup !== undefined) identifiedBy[lookup] = (identifiedBy[lookup] ?? 0) + 1
  }
  return { rows: rows.length, identifiedBy }
}
