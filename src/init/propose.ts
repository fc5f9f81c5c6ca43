import pLimit from 'p-limit'
import { ConfigProblems } from '../config/problems.ts'
import { parseTableName } from '../sources/quote.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { listCells } from './cells.ts'
import { type ListedTable, chooseKey, readDatabaseTables } from './database-tables.ts'
import { type SampledTable, draftSource } from './draft.ts'
import { sampleRows } from './measure.ts'
import { isLogName, rankDomainName, rankEmailName } from './names.ts'
import { listRefusedTables, listUnreadTables } from './privileges.ts'
import type { Proposal } from './proposal.ts'
import { type Identified, identify } from './recognize.ts'

/** Tables that are read at the same time. */
const MAX_READERS = 4
const CATALOGUE_TIMEOUT_MS = 30_000
const NO_OUTPUTS = 'no column to fill has the name and the type of a field'

/**
 * Reads the database and proposes a source for each table of people or companies. Writes nothing.
 * @param wanted tables or schemas to propose sources of: `crm.contacts`, `contacts`, `crm`; empty: all
 * @throws ConfigProblems if a wanted table is not there
 */
export async function proposeSources(db: Database, wanted: readonly string[]): Promise<Proposal> {
  const database = await inTransaction(db, readDatabaseTables, CATALOGUE_TIMEOUT_MS)
  const isNamed = selectTables(database.tables, wanted)
  const limit = pLimit(MAX_READERS)
  const readable = database.tables.flatMap((one) =>
    one.table === null ? [] : [{ ...one, table: one.table }],
  )
  const tables = await limit.map(readable, async (one): Promise<SampledTable> => {
    const sample = await sampleRows(db, one.table, one.rows)
    return { ...one, cells: listCells(one.table, sample ?? []), sampled: sample?.length ?? null }
  })
  const wantedTables = tables.filter((table) => wanted.length === 0 || isNamed(table))
  const refused = await listRefusedTables(
    db,
    wantedTables.filter(({ sampled }) => sampled === null),
  )
  const judged = wantedTables
    .filter(({ sqlName }) => !refused.some(({ table }) => table === sqlName))
    .map((table) => ({ table, ...judge(table, isNamed(table)) }))
  const found = judged.flatMap(({ table, identified }) =>
    identified === null ? [] : [{ table, identified }],
  )
  const others = tables.filter((table) => !found.some((one) => one.table === table))
  const drafts = await limit.map(found, ({ table, identified }) => {
    const isShared = found.filter((one) => one.table.name === table.name).length > 1
    return draftSource(db, database, table, { ...identified, name: nameSource(table, isShared) }, others)
  })
  const sources = drafts.filter(({ outputs }) => outputs.length > 0)
  const seen = new Set(tables.filter(({ sampled }) => sampled !== 0).map(({ sqlName }) => sqlName))
  const unread = listUnreadTables(database, seen, new Set(sources.map(({ table }) => table)), isNamed)
  const rejected = [
    ...judged.map(({ table, reason }) => ({ table: table.sqlName, reason })),
    ...drafts.map(({ table, outputs }) => ({ table, reason: outputs.length === 0 ? NO_OUTPUTS : null })),
  ].flatMap(({ table, reason }) => (reason === null ? [] : [{ table, reason, grants: [] }]))
  return { tables: tables.length, sources, left: [...unread, ...refused, ...rejected] }
}

/** Whether a table was named, with or without its schema, or its schema was. */
function selectTables(
  tables: readonly ListedTable[],
  wanted: readonly string[],
): (table: ListedTable) => boolean {
  const isMeant = ({ schema, name }: ListedTable, text: string): boolean => {
    const parsed = parseTableName(text)
    return parsed.schema === null
      ? parsed.table === name || parsed.table === schema
      : parsed.table === name && parsed.schema === schema
  }
  const missing = wanted.filter((text) => !tables.some((table) => isMeant(table, text)))
  if (missing.length > 0)
    throw new ConfigProblems(
      'the command',
      missing.map((place) => ({
        place,
        found: 'no such table or schema',
        expected: 'one of this database, such as crm.contacts',
        todo: 'Look at its spelling: capitals need quotes.',
      })),
    )
  return (table) => wanted.some((text) => isMeant(table, text))
}

/** Whether a table is a source. A reason is given where it was named, or where its columns look like those of one. Pure. */
function judge(
  { name, hasRowSecurity, lacksSelectPolicy, table, cells, sampled }: SampledTable,
  isNamed: boolean,
): { readonly identified: Identified | null; readonly reason: string | null } {
  const isLikely = cells.some(({ ownName }) => rankEmailName(ownName) > 1 || rankDomainName(ownName) > 1)
  const reject = (reason: string) => ({ identified: null, reason: isNamed || isLikely ? reason : null })
  // Where row-level security may hide the rows, the missing policy is named.
  if (sampled === 0 && lacksSelectPolicy) return { identified: null, reason: null }
  if (sampled === 0 && hasRowSecurity) return reject('row-level security shows this role no row of it')
  if (sampled === 0) return reject('it has no rows, so nothing was measured')
  if (sampled === null) return reject('its rows could not be read within five seconds')
  const identified = identify(cells)
  if (identified === null)
    return reject('fewer than half of its sampled rows hold an address, a profile or a domain to look up')
  if (chooseKey(table).length === 0)
    return reject('it has no primary key, and no unique index over columns that are never NULL')
  if (!isNamed && isLogName(name))
    return reject('its name says that it holds copies or events; name it to propose it')
  return { identified, reason: null }
}

/** The table's name, with its schema where another source has the same, in letters that a configuration takes. */
function nameSource({ schema, name }: ListedTable, isShared: boolean): string {
  const plain = (isShared ? `${schema}_${name}` : name).replaceAll(/[^A-Za-z0-9_-]/g, '_')
  return (/^[A-Za-z]/.test(plain) ? plain : `t_${plain}`).slice(0, 63)
}
