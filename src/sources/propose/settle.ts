import type { RawInputs } from '../../domain/identifiers/choose.ts'
import type { InputName } from '../../domain/mapping.ts'
import { outputsOf, type Draft } from './draft.ts'
import { readField, type Field } from './field.ts'
import { sampleOf, type MeasuredRow } from './measure.ts'
import type { ProposedSource } from './proposal.ts'

/** From this share of the sampled rows on, a column that can be filled is worth more as an input. */
const WORTH = 0.05

/**
 * Decides which expressions are inputs, by what they give for some rows: a profile or the name of a company identifies
 * rows that have no address, and where it hardly does it is rather filled itself. Pure.
 * @returns the source, or why there is none
 */
export function settle(draft: Draft, rows: readonly MeasuredRow[]): ProposedSource | string {
  const chosen = draft.base.kind === 'person' ? settlePerson(draft, rows) : settleCompany(draft, rows)
  const inputs = (Object.entries(chosen.inputs) as Array<[InputName, string]>).map(([input, sql]) => ({
    input,
    sql,
  }))
  if (inputs.length === 0)
    return draft.base.kind === 'person'
      ? 'nothing identifies its rows: no email address, no profile, no name with a company'
      : 'nothing identifies its rows: no site, no domain, no email address'
  const sample = sampleOf(draft.base.kind, rows, chosen.read)
  if (rows.length > 0 && Object.keys(sample.askedBy).length === 0)
    return `none of ${rows.length} rows looked at has a usable ${inputs.map((one) => one.input).join(', ')}`
  const { outputs, leftOut } = outputsOf(draft, chosen.fields)
  if (outputs.length === 0)
    return leftOut.length === 0
      ? 'it has no column to fill'
      : `it has no column to fill: ${leftOut.map(({ column, why }) => `${column} ${why}`).join(', ')}`
  return { ...draft.base, joins: chosen.joins, inputs, outputs, leftOut, sample }
}

interface Chosen {
  readonly inputs: Partial<Record<InputName, string>>
  /** Fields that inputs are read from. */
  readonly fields: ReadonlySet<Field>
  readonly joins: string | null
  /** What the chosen inputs give for a measured row. */
  readonly read: (row: MeasuredRow) => RawInputs
}

const NOTHING: RawInputs = { email: null, linkedin_url: null, name: null, company: null, domain: null }

function settlePerson(draft: Draft, rows: readonly MeasuredRow[]): Chosen {
  const { inputs, spare, base } = draft
  const used = new Set<Field>()
  const email = draft.picks.get('email')
  if (inputs.email !== undefined && email) used.add(email)
  const askedBy = (read: Chosen['read']): Record<string, number> => sampleOf('person', rows, read).askedBy
  const byEmail = (row: MeasuredRow): RawInputs => ({
    ...NOTHING,
    email: row.email,
    linkedin_url: row.linkedin_url,
  })
  const byProfile = (row: MeasuredRow): RawInputs => ({
    ...byEmail(row),
    linkedin_url: row.linkedin_url ?? row.profile,
  })

  const profiles = askedBy(byProfile)['linkedin_url'] ?? 0
  const isProfileInput =
    spare.profile !== undefined && (inputs.email === undefined || profiles > rows.length * WORTH)
  const before = isProfileInput ? byProfile : byEmail

  const hasName = inputs.name !== undefined
  const work = companyOf(draft, rows, before)
  const isNamed = hasName && work !== null
  if (spare.profile && isProfileInput) used.add(spare.profile)
  if (isNamed && work.usesField && spare.company) used.add(spare.company)
  if (isNamed) for (const role of ['first_name', 'last_name', 'name'] as const) addPick(used, draft, role)
  return {
    inputs: {
      ...(inputs.email !== undefined && { email: inputs.email }),
      ...(inputs.linkedin_url !== undefined && { linkedin_url: inputs.linkedin_url }),
      ...(spare.profile && isProfileInput && { linkedin_url: readField(spare.profile, 't') }),
      ...(isNamed && inputs.name !== undefined && { name: inputs.name, company: work.sql }),
    },
    fields: used,
    joins: isNamed && work.usesJoin ? base.joins : null,
    read: (row) => (isNamed ? { ...before(row), name: row.name, company: work.read(row) } : before(row)),
  }
}

interface Work {
  readonly sql: string
  readonly usesJoin: boolean
  readonly usesField: boolean
  readonly read: (row: MeasuredRow) => string | null
}

/** The name of a person's company: of the row in another table, of a column, or of the one and else the other. */
function companyOf(
  { inputs, spare }: Draft,
  rows: readonly MeasuredRow[],
  before: (row: MeasuredRow) => RawInputs,
): Work | null {
  const plain = spare.company && readField(spare.company, 't')
  if (inputs.company !== undefined) {
    const alone = {
      sql: inputs.company,
      usesJoin: true,
      usesField: false,
      read: (row: MeasuredRow) => row.company,
    }
    const isMissed = rows.some((row) => isNothing(row.company) && !isNothing(row.employer))
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
  const { askedBy } = sampleOf('person', rows, (row) => ({
    ...before(row),
    name: row.name,
    company: read(row),
  }))
  const isAlone = inputs.email === undefined && spare.profile === undefined
  const isWorth = isAlone || (askedBy['name_company'] ?? 0) > rows.length * WORTH
  return isWorth ? { sql: plain, usesJoin: false, usesField: true, read } : null
}

const isNothing = (value: string | null): boolean => value === null || value.trim() === ''

function addPick(used: Set<Field>, { picks }: Draft, role: 'first_name' | 'last_name' | 'name'): void {
  const field = picks.get(role)
  if (field) used.add(field)
}

function settleCompany(draft: Draft, rows: readonly MeasuredRow[]): Chosen {
  const { inputs, spare, base, picks } = draft
  const fields = new Set([picks.get('domain'), picks.get('email')].filter((field) => field !== undefined))
  const chosen = (domain: string | undefined, read: (row: MeasuredRow) => string | null): Chosen => ({
    inputs: domain === undefined ? {} : { domain },
    fields,
    joins: base.joins,
    read: (row) => ({ ...NOTHING, domain: read(row) }),
  })
  const site = chosen(inputs.domain, (row) => row.domain)
  if (spare.mail === undefined) return site
  if (inputs.domain === undefined) return chosen(spare.mail, (row) => row.mail)
  const both = chosen(`coalesce(nullif(btrim(${inputs.domain}), ''), ${spare.mail})`, (row) =>
    isNothing(row.domain) ? row.mail : row.domain,
  )
  const asked = (one: Chosen): number => sampleOf('company', rows, one.read).askedBy['domain'] ?? 0
  return asked(both) - asked(site) > rows.length * WORTH ? both : site
}
