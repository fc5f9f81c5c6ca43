import type { ProposedSource } from '../../../src/init/proposal.ts'
import { whereOf } from '../../../src/init/questions.ts'
import type { TestDatabase } from '../../support/database.ts'

/** The source with what is sure about its rows in `where`: what is left in its questions is not sure. */
export const takeSure = (source: ProposedSource): ProposedSource => ({
  ...source,
  where: whereOf(source, ({ isSure }) => isSure),
  questions: source.questions.filter(({ isSure }) => !isSure),
})

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
