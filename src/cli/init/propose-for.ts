import { ConfigProblems } from '../../config/problems.ts'
import { listTables } from '../../sources/catalogue.ts'
import { didYouMean } from '../../util/text.ts'
import type { Proposal } from '../../init/proposal.ts'
import { proposeSources, type TableName } from '../../init/propose.ts'
import { parseTableName } from '../../sources/quote.ts'
import type { Database } from '../../store/open.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Context } from '../command.ts'

/**
 * Proposes for the tables that are named, or for all, and says on a terminal where it is.
 * @throws ConfigProblems where a table is named that is not there
 */
export async function proposeForTables(
  db: Database,
  words: readonly string[],
  { stderr, signal }: Context,
): Promise<Proposal> {
  const named = words.map((word) => ({ word, ...parseTableName(word) }))
  const isNamed = (name: (typeof named)[number], table: TableName): boolean =>
    name.table === table.name && (name.schema === null || name.schema === table.schema)
  if (named.length > 0) {
    const tables = (await listTables(db)).map(({ schema, table }) => ({ schema, name: table }))
    const missing = named.find((name) => !tables.some((table) => isNamed(name, table)))
    if (missing) throw noSuchTableProblem(missing.word, tables)
  }
  const proposal = await proposeSources((act, timeoutMs) => inTransaction(db, act, timeoutMs), {
    wanted: named.length === 0 ? null : (table) => named.some((name) => isNamed(name, table)),
    onTable: (table, n, of) => {
      signal.throwIfAborted()
      stderr.live([`Examining ${table.schema}.${table.name}, ${n} of ${of}`])
    },
  })
  stderr.live([])
  return proposal
}

function noSuchTableProblem(word: string, tables: readonly TableName[]): ConfigProblems {
  const names = tables.map((table) => (word.includes('.') ? `${table.schema}.${table.name}` : table.name))
  return new ConfigProblems('the command', [
    {
      place: word,
      found: 'no such table in this database',
      expected: 'an existing table, such as crm.contacts',
      todo: didYouMean(word, names) ?? 'Omit the name to examine all tables.',
    },
  ])
}
