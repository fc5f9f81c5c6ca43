import { chooseLookup, type RawInputs } from '../../domain/identifiers/choose.ts'
import type { InputName, SourceKind } from '../../domain/mapping.ts'
import { query, type Db } from '../db.ts'
import type { Draft } from './draft.ts'
import { readField } from './field.ts'
import type { Sample } from './proposal.ts'
import { SAMPLE_ROWS, tableSample } from './sample.ts'

/** One row's inputs, and those that may become inputs. */
export interface MeasuredRow extends RawInputs {
  readonly profile: string | null
  readonly employer: string | null
  readonly mail: string | null
}

/** What the expressions of a draft give for some of its rows, at most 200. */
export async function measure(db: Db, draft: Draft): Promise<readonly MeasuredRow[]> {
  const { base, judged, inputs, spare } = draft
  const names: readonly InputName[] = ['email', 'linkedin_url', 'name', 'company', 'domain']
  const list = [
    ...names.map((name) => [inputs[name], name] as const),
    [spare.profile && readField(spare.profile, 't'), 'profile'] as const,
    [spare.company && readField(spare.company, 't'), 'employer'] as const,
    [spare.mail, 'mail'] as const,
  ]
  const columns = list.map(([sql, name]) => `${sql === undefined ? 'null' : `(${sql})`}::text as ${name}`)
  const read = (spread: string): Promise<readonly MeasuredRow[]> =>
    query(
      db,
      `select ${columns.join(', ')} from ${judged.table.sql} as t ${spread} ${base.joins ?? ''}
        where ${base.where ?? 'true'} limit ${SAMPLE_ROWS}`,
    )
  const spread = tableSample(base.rows)
  const rows = spread === null ? [] : await read(spread)
  return rows.length >= SAMPLE_ROWS / 2 ? rows : read('')
}

/** By which identifier each row would be asked. Pure. */
export function sampleOf(
  kind: SourceKind,
  rows: readonly MeasuredRow[],
  inputs: (row: MeasuredRow) => RawInputs,
): Sample {
  const askedBy: Record<string, number> = {}
  for (const row of rows) {
    const lookup = chooseLookup(kind, inputs(row)).lookup?.kind
    if (lookup !== undefined) askedBy[lookup] = (askedBy[lookup] ?? 0) + 1
  }
  return { rows: rows.length, askedBy }
}
