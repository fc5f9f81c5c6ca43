import type { InputName } from '../../domain/mapping.ts'
import { outputsOf, type Draft } from './draft.ts'
import { sampleOf, type MeasuredRow } from './measure.ts'
import type { ProposedSource } from './proposal.ts'
import { settleCompany } from './settle-company.ts'
import { settlePerson } from './settle-person.ts'

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
