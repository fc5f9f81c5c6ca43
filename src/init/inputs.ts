import type { InputName } from '../domain/mapping.ts'
import { type Draft, proposeOutputs } from './draft.ts'
import type { ProposedSource } from './proposal.ts'
import { type RawInputs, chooseLookup } from '../domain/identifiers/choose.ts'
import { joinConditions, toQuestions } from './questions.ts'
import type { Db } from '../sources/db.ts'
import { quoteName } from '../sources/quote.ts'
import { readSample } from './sample.ts'

/**
 * Makes a source of a draft, by what its inputs yield on sampled rows. Pure.
 * @returns the source, or the reason why there is none
 */
export function finishDraft(draft: Draft, rows: readonly MeasuredRow[]): ProposedSource | string {
  const { doubts, ...base } = draft.base
  const inputs = INPUTS.flatMap((input) => {
    const sql = draft.inputs[input]
    return sql === undefined ? [] : [{ input, sql }]
  })
  if (inputs.length === 0)
    return base.kind === 'person'
      ? 'nothing identifies its rows: no email address, no profile, no name with a company'
      : 'nothing identifies its rows: no site, no domain, no email address'
  // What surely must be left out says nothing of the others.
  const left = rows.filter(({ kept }) => doubts.every(({ isSure }, n) => !isSure || kept[n] === true))
  const found = left.flatMap((row) => chooseLookup(base.kind, row).lookup?.kind ?? [])
  if (left.length > 0 && found.length === 0)
    return `none of ${left.length} sampled rows has a usable ${inputs.map((one) => one.input).join(', ')}`
  const { outputs, skippedColumns } = proposeOutputs(draft)
  const leftOut = doubts.map(
    ({ isSure }, n) => (isSure ? rows : left).filter(({ kept }) => kept[n] !== true).length,
  )
  const { questions, conditions } = toQuestions(doubts, leftOut, left.length)
  const counts = [...Map.groupBy(found, (kind) => kind)].map(([kind, all]) => [kind, all.length] as const)
  return {
    ...base,
    where: joinConditions([base.where, ...conditions]),
    inputs,
    outputs,
    skippedColumns,
    questions,
    sample: { rows: left.length, identifiedBy: Object.fromEntries(counts) },
  }
}

const INPUTS: readonly InputName[] = ['email', 'linkedin_url', 'name', 'company', 'domain']

/** Why a source without outputs is none. */
export const describeUnfilled = ({ skippedColumns }: Pick<ProposedSource, 'skippedColumns'>): string =>
  ['it has no column to fill', skippedColumns.map(({ column, reason }) => `${column} ${reason}`).join(', ')]
    .filter((text) => text !== '')
    .join(': ')

/** One row's inputs. */
export interface MeasuredRow extends RawInputs {
  /** Whether it stays by each of the draft's doubts. */
  readonly kept: readonly (boolean | null)[]
}

/** What few rows have would be missing among fewer. */
const MEASURED_ROWS = 1_000

/** Evaluates the inputs and the doubts of a draft on a sample of at most 1,000 rows. */
export function measureInputs(db: Db, { base, table, inputs }: Draft): Promise<readonly MeasuredRow[]> {
  const own = INPUTS.map((name) => `(${inputs[name] ?? 'null'})::text as ${name}`)
  // An address in another table is found once a row, and not once for every list that it may be on.
  const found = inputs.email ?? inputs.domain ?? ''
  const keeps = base.doubts.map(({ keep }) =>
    found.includes('select') ? keep.replaceAll(found, `v.${inputs.email ? 'email' : 'domain'}`) : keep,
  )
  return readSample(db, table, MEASURED_ROWS, {
    // A role may be granted some columns.
    select: table.table.columns.flatMap(({ name, canSelect }) => (canSelect ? [`t.${quoteName(name)}`] : [])),
    rest: `${base.joins ?? ''} where ${base.where ?? 'true'}`,
    joins: `${base.joins ?? ''} cross join lateral (select ${own.join(', ')} offset 0) as v`,
    values: ['v.*', `array[${keeps.join(', ')}]::boolean[] as kept`],
  })
}
