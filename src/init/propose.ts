import pLimit from 'p-limit'
import { ConfigProblems } from '../config/problems.ts'
import { parseTableName, quoteIfNeeded, formatTableName, type Db } from '../sources/db.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { listCells, type Cell } from './cells.ts'
import {
  chooseKey,
  readDatabaseTables,
  listAllowedLabels,
  sampleRows,
  countLabels,
  toLabelSql,
  type ListedTable,
  type DatabaseTables,
  type TableReference,
} from './database-tables.ts'
import { isLogName, rankDomainName, rankEmailName, splitWords } from './names.ts'
import type { Proposal, ProposedSource, LeftTable } from './proposal.ts'
import { identify, findOutputs, type Identified } from './recognize.ts'
import { parseConfig } from '../config/load.ts'
import type { Table } from '../sources/catalogue.ts'
import {
  grantStatements,
  ProblemList,
  listRemedies,
  type Grant,
  type MissingPolicy,
} from '../sources/problems.ts'
import { resolveSource } from '../sources/source.ts'
import { decideConditions, listReasons, mayBeReason, type Labels, type Reason } from './conditions.ts'
import { checkPolicyPrivileges } from '../sources/check/privileges.ts'

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
  const readable = database.tables.flatMap((listed) =>
    listed.table === null ? [] : [{ ...listed, table: listed.table }],
  )
  const tables = await limit.map(readable, async (listed): Promise<SampledTable> => {
    const sample = await sampleRows(db, listed.table, listed.rows)
    return { ...listed, cells: listCells(listed.table, sample ?? []), sampled: sample?.length ?? null }
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
  const others = tables.filter((table) => !found.some((other) => other.table === table))
  const drafts = await limit.map(found, ({ table, identified }) => {
    const isShared = found.filter((other) => other.table.name === table.name).length > 1
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

/** A table whose rows were sampled. */
interface SampledTable extends ListedTable {
  readonly table: Table
  readonly cells: readonly Cell[]
  /** The number of rows; null: they could not be read in time. */
  readonly sampled: number | null
}

const NO_LABELS: Labels = new Map()

/**
 * Measures a table of people or companies and the tables that hang on it, and decides what its source is.
 * @param others the tables that are no sources of their own
 */
async function draftSource(
  db: Database,
  database: DatabaseTables,
  sampled: SampledTable,
  { name, kind, inputs }: Identified & { readonly name: string },
  others: readonly SampledTable[],
): Promise<ProposedSource> {
  const { table, sqlName } = sampled
  const cells = withoutKeys(database, sampled)
  const measured = cells.filter(mayBeReason)
  const labels = measured.map((cell) => toLabelSql(cell))
  const counts = await countLabels(db, `${table.sql} as t`, sampled.rows, labels)
  const countedLabels = (cell: Cell): Labels => counts?.labels[measured.indexOf(cell)] ?? NO_LABELS
  const inputCells = inputs.flatMap((input) => input.cells)
  const outputs = findOutputs(cells, {
    kind,
    inputs: inputCells,
    countedLabels,
    allowedLabels: ({ path, column }) =>
      path.length > 0 ? [] : listAllowedLabels(database, sqlName, column),
  })
  const used = new Set([...inputCells, ...outputs.map(({ cell }) => cell)])
  const reasons = measured.flatMap((cell) =>
    used.has(cell) ? [] : listReasons(cell, countedLabels(cell), counts?.rows ?? 0),
  )
  const hanging = counts === null ? [] : await readHanging(db, database, sampled, others)
  return verifySource(db, database, sampled, {
    name,
    kind,
    table: sqlName,
    key: chooseKey(table),
    inputs: inputs.map(({ input, sql, usable }) => ({ input, sql, usable })),
    outputs: outputs.map(({ cell: _cell, ...output }) => output),
    conditions: counts === null ? [] : decideConditions(counts.rows, [...reasons, ...hanging]),
    counted: counts && { rows: counts.rows, of: counts.of },
    grants: [],
  })
}

/** The cells that are neither a key nor refer to another table. */
function withoutKeys({ references }: DatabaseTables, { sqlName, table, cells }: SampledTable): Cell[] {
  const referring = references.filter(({ from }) => from === sqlName).map(({ column }) => column)
  const keys = new Set([...chooseKey(table), ...referring])
  return cells.filter(({ column }) => !keys.has(column.name))
}

/** What tables say whose rows belong to one of the source by a declared key: `contact_consents (contact_id, withdrawn_at)`. */
async function readHanging(
  db: Database,
  database: DatabaseTables,
  { name, sqlName }: SampledTable,
  others: readonly SampledTable[],
): Promise<Reason[]> {
  const found: Reason[] = []
  for (const reference of database.references.filter(({ to }) => to === sqlName)) {
    const child = others.find(({ sqlName }) => sqlName === reference.from)
    if (child === undefined || isLogName(child.name) || !belongs(reference, child.table, name)) continue
    const cells = withoutKeys(database, child).filter((cell) => cell.path.length === 0 && mayBeReason(cell))
    const labels = cells.map((cell) => toLabelSql(cell, 'x'))
    const own = `x.${quoteIfNeeded(reference.column)}`
    const counts = await countLabels(
      db,
      `${child.sqlName} as x`,
      child.rows,
      labels,
      `count(distinct ${own})`,
    )
    const reasons = cells.flatMap((cell, n) =>
      listReasons(cell, counts?.labels[n] ?? NO_LABELS, counts?.rows ?? 0, 'x'),
    )
    for (const { leave, leaves } of reasons.filter((reason) => reason.leaves > 0)) {
      const keep = `not exists (select from ${child.sqlName} x where ${own} = t.${quoteIfNeeded(reference.target)} and ${leave})`
      // Whether an objection in another table is about the whole row, only a person knows.
      found.push({ leave, keep, leaves, isNamed: false })
    }
  }
  return found
}

/** Whether a row belongs to the one that it refers to, as by `contact_id`, and was not only made by it, as by `created_by_id`. */
function belongs({ column }: TableReference, { primaryKey }: Table, parent: string): boolean {
  const words = splitWords(column).filter((word) => word !== 'id')
  const isPart = primaryKey.length === 1 && primaryKey[0] === column
  return isPart || (words.length > 0 && words.every((word) => parent.toLowerCase().includes(word)))
}

/**
 * Checks a source against the database as every other command does. An output that fails is left out; one that a grant would solve
 * stays, with the grant.
 */
async function verifySource(
  db: Database,
  { role }: DatabaseTables,
  sampled: SampledTable,
  source: ProposedSource,
): Promise<ProposedSource> {
  if (source.outputs.length === 0) return source
  const { sources } = parseConfig({ sources: { [source.name]: toSourceConfig(source) } }, null)
  const [mapping] = Object.values(sources)
  const { problems } = mapping === undefined ? { problems: [] } : await resolveSource(db, mapping)
  const grants = problems.flatMap(({ grant }) => (grant === undefined ? [] : [grant]))
  const failed = problems.filter(({ grant }) => grant === undefined).map(({ place }) => `${place}.`)
  return {
    ...source,
    outputs: source.outputs.filter(
      ({ column }) => !failed.some((place) => place.startsWith(`outputs.${column}.`)),
    ),
    grants: grantStatements([...listUnreadColumns(role, sampled), ...grants]),
  }
}

/** A source as an entry of a configuration, as if a person had read it. */
const toSourceConfig = ({ kind, table, key, conditions, inputs, outputs }: ProposedSource): object => ({
  kind,
  table,
  key,
  where: conditions.filter(({ state }) => state === 'active').map(({ keep }) => keep),
  inputs: Object.fromEntries(inputs.map(({ input, sql }) => [input, sql])),
  outputs: Object.fromEntries(
    outputs.map(({ column, field, map }) => [column, map === null ? field : { field, map }]),
  ),
})

/** What the role lacks to read single columns of a table that it reads. Pure. */
function listUnreadColumns(role: string, { schema, name, table }: ListedTable): Grant[] {
  const unread = table?.columns.filter(({ canSelect }) => !canSelect) ?? []
  const columns = unread.map((column) => quoteIfNeeded(column.name))
  return columns.length === 0
    ? []
    : [{ on: formatTableName(schema, name), privilege: 'SELECT', columns, role }]
}

/**
 * Tables of which row-level security may hide every row; and tables that this role may not read, where they may hold people or
 * companies, refer to a source or are referred to by one, or were named. Pure.
 * @param seen the tables of which this role saw a row
 */
function listUnreadTables(
  { tables, references, role, policy, updatePolicy }: DatabaseTables,
  seen: ReadonlySet<string>,
  sources: ReadonlySet<string>,
  isNamed: (table: ListedTable) => boolean,
): LeftTable[] {
  const joined = new Set(
    references.flatMap(({ from, to }) => [
      ...(sources.has(from) ? [to] : []),
      ...(sources.has(to) ? [from] : []),
    ]),
  )
  const isLikely = (column: string): boolean => rankEmailName(column) > 1 || rankDomainName(column) > 0
  return tables.flatMap((listed) => {
    const isHidden = listed.table === null || (listed.lacksSelectPolicy && !seen.has(listed.sqlName))
    // What the role was granted, it is meant to read.
    const isMeant = listed.table !== null || isNamed(listed) || joined.has(listed.sqlName)
    if (!isHidden || !(isMeant || listed.columnNames.some(isLikely))) return []
    const on = formatTableName(listed.schema, listed.name)
    const schema = `SCHEMA ${quoteIfNeeded(listed.schema)}`
    const lacking: (Grant | MissingPolicy | false)[] = [
      !listed.canUseSchema && { on: schema, privilege: 'USAGE', columns: null, role },
      listed.table === null && { on, privilege: 'SELECT', columns: null, role },
      listed.lacksSelectPolicy && { on, policy, command: 'SELECT', using: 'true', role },
      listed.lacksUpdatePolicy && { on, policy: updatePolicy, command: 'UPDATE', using: 'true', role },
    ]
    const reason =
      listed.table === null ? 'this role may not read it' : 'row-level security may hide its rows'
    return [{ table: on, reason, grants: grantStatements(lacking.filter((grant) => grant !== false)) }]
  })
}

/**
 * Those of some tables with policies that read or call what this role may not, which makes Postgres refuse every row.
 * @param tables whose rows could not be read
 */
async function listRefusedTables(db: Db, tables: readonly ListedTable[]): Promise<LeftTable[]> {
  const refused: LeftTable[] = []
  for (const { oid, sqlName, hasRowSecurity } of tables) {
    if (!hasRowSecurity) continue
    const report = new ProblemList(sqlName)
    await checkPolicyPrivileges(db, [{ oid, place: 'table', isSource: false }], report)
    if (report.problems.length > 0)
      refused.push({
        table: sqlName,
        reason: 'its policies use what this role may not',
        grants: listRemedies(report.problems),
      })
  }
  return refused
}
