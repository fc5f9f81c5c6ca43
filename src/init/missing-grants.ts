import { grantStatements } from '../sources/grants.ts'
import { quoteIfNeeded, splitName } from '../sources/quote.ts'
import type { Proposal, ProposedSource, UnreadTable } from './proposal.ts'

/** Why a column is not proposed that this role may only read. */
export const MAY_NOT_UPDATE = 'may not be updated by this role'

/** The statements for what this role lacks: to read tables that decide who is left out, and to write columns. Pure. */
export const listMissingGrants = (
  unread: readonly UnreadTable[],
  sources: readonly Pick<ProposedSource, 'table' | 'skippedColumns'>[] = [],
  role: Proposal['role'] = '',
): string[] =>
  grantStatements([
    ...unread.flatMap(({ lacking }) => lacking),
    ...sources.flatMap(({ table, skippedColumns }) =>
      skippedColumns
        .filter(({ reason }) => reason === MAY_NOT_UPDATE)
        .map(({ column }) => ({
          on: table,
          privilege: 'UPDATE' as const,
          columns: [quoteIfNeeded(splitName(column)[0] ?? column)],
          role,
        })),
    ),
  ])
