import type { ProposedSource } from '../../../src/init/proposal.ts'
import type { TestDatabase } from '../../support/database.ts'

/** The keys of the rows that a proposed source reads, in order. */
export async function readKeys(
  database: TestDatabase,
  { table, joins, where }: ProposedSource,
  key = 'id',
): Promise<number[]> {
  const rows = await database.query<{ id: number }>(
    `select t.${key} as id from ${table} t ${joins ?? ''} where ${where ?? 'true'} order by 1`,
  )
  return rows.map(({ id }) => id)
}
