import type { RawInputs } from '../../domain/identifiers/choose.ts'
import { isNothing, NOTHING, WORTH, type Chosen } from './chosen.ts'
import type { Draft } from './draft.ts'
import { readField, type Field } from './field.ts'
import { sampleOf, type MeasuredRow } from './measure.ts'

/**
 * A profile and a company's name identify rows that have no address; where they hardly do, they are rather filled
 * themselves. Pure.
 */
export function settlePerson(draft: Draft, rows: readonly MeasuredRow[]): Chosen {
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

function addPick(used: Set<Field>, { picks }: Draft, role: 'first_name' | 'last_name' | 'name'): void {
  const field = picks.get(role)
  if (field) used.add(field)
}
