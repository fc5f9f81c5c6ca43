import pLimit from 'p-limit'
import type { SourceKind } from '../domain/mapping.ts'
import type { Draft } from './draft.ts'
import { draftSources } from './drafts.ts'
import { isAddressList } from './part-drafts.ts'
import { type MeasuredRow, finishDraft, describeUnfilled, measureInputs } from './inputs.ts'
import type { Proposal, ProposedSource, SkippedTable } from './proposal.ts'
import { suggestedCodeLists } from './code-lists.ts'
import { explainTable } from './explain.ts'
import { selectQuestions } from './questions.ts'
import { type TableRelation, confirmRelations, declaredRelations, suggestedRelations } from './relations.ts'
import { findLookupColumns } from './lookup-tables.ts'
import { belongToCompanies, findStaffTables } from './staff.ts'
import { type TenantChoice, chooseTenant, findTenantColumns, isTenantName } from './tenants.ts'

import {
  type ForeignKey,
  type IntrospectedTable,
  type TableOverview,
  type ReadTransaction,
  introspectTable,
  listForeignKeys,
  listTableOverviews,
  readCatalogue,
  readRows,
} from './introspect.ts'
import { type ClassifiedSchema, type ClassifiedTable, classifyTables, setAside } from './classify.ts'
import { explainUnread, listUnread, listUnreadParties, readRole } from './unreadable.ts'
import { shortlistTables } from './shortlist.ts'
import { ConfigProblems } from '../config/problems.ts'
import { listTables } from '../sources/catalogue.ts'
import { didYouMean } from '../util/text.ts'
import { parseTableName } from '../sources/quote.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'

interface TableName {
  readonly schema: string
  readonly name: string
}

interface ProposeOptions {
  /** Selects the tables to consider, however weak the evidence. Null: all. */
  readonly wanted: ((table: TableName) => boolean) | null
  /** Called before a table's rows are read. */
  readonly onTable?: (table: TableName, n: number, of: number) => void
}

/** Tables that are read at the same time. */
const MAX_READERS = 4

/**
 * Proposes sources for a database. Reads its catalogue and at most 200 rows of each of at most 200 tables. Writes
 * nothing and keeps no value.
 */
export async function proposeSources(
  read: ReadTransaction,
  { wanted, onTable }: ProposeOptions,
): Promise<Proposal> {
  const all = await readCatalogue(read, listTableOverviews)
  const references = await readCatalogue(read, listForeignKeys)
  const role = await readCatalogue(read, readRole)
  const shortlist = shortlistTables(all, references)
  const likely = shortlist.filter((one) => one.canRead)
  const named =
    wanted === null ? [] : all.filter((one) => wanted(one) && one.canRead && !likely.includes(one))
  const readable = all.filter((one) => one.canRead)
  const limit = pLimit(MAX_READERS)
  const chosen = [...likely, ...named]
  const surveyed = await Promise.all(
    chosen.map((one, n) =>
      limit(() => {
        onTable?.(one, n + 1, chosen.length)
        return introspectTable(read, one)
      }),
    ),
  )
  const tables = surveyed.filter((one) => one !== null)
  const declared = declaredRelations(tables, references)
  const suggested = suggestedRelations(tables, declared)
  const confirmed = await readRows(read, (db) => confirmRelations(db, suggested), [])
  const relations = [...declared, ...confirmed]
  const isWanted = ({ table }: IntrospectedTable): boolean => wanted === null || wanted(table)
  const schema = await classifySchema(read, {
    all,
    references,
    tables,
    relations: [...relations, ...suggestedCodeLists(tables, relations)],
    isNamed: wanted === null ? () => false : isWanted,
  })

  const sources: ProposedSource[] = []
  const skippedTables: SkippedTable[] = []
  for (const draft of draftSources(schema)) {
    if (!isWanted(draft.table)) continue
    const source = await measureDraft(read, draft)
    if (typeof source === 'string') skippedTables.push({ table: draft.base.table, reason: source })
    else if (source.outputs.length > 0) sources.push(source)
    else skippedTables.push({ table: draft.base.table, reason: describeUnfilled(source) })
  }
  const nearest = listRejections(schema, isWanted, {
    doubtful: sources.length === 0 && skippedTables.length === 0,
  })
  const withQuestions = selectQuestions(sources)
  const unread = listUnread(all, { references, wanted, sources, role })
  return {
    explained:
      wanted === null
        ? []
        : [
            ...schema.tables
              .filter(isWanted)
              .map((one) => explainTable(one, schema.relations, withQuestions)),
            ...explainUnread(unread),
          ],
    sources: withQuestions,
    skippedTables: [
      ...(wanted === null ? listUnreadParties(all, references, unread) : []),
      ...skippedTables,
      ...nearest,
    ],
    unread,
    role: role.name,
    examined: { tables: readable.length, schemas: [...new Set(readable.map((one) => one.schema))] },
  }
}

/** A draft with its inputs. A doubt that cannot be computed, of a type that is not expected, costs itself and not the source. */
async function measureDraft(read: ReadTransaction, draft: Draft): Promise<ProposedSource | string> {
  const measure = (one: Draft): Promise<readonly MeasuredRow[] | null> =>
    readRows<readonly MeasuredRow[] | null>(read, (db) => measureInputs(db, one), null)
  const having = (doubts: Draft['base']['doubts']): Draft => ({ ...draft, base: { ...draft.base, doubts } })
  const rows = await measure(draft)
  if (rows !== null || draft.base.doubts.length === 0) return finishDraft(draft, rows ?? [])
  const usable = []
  for (const doubt of draft.base.doubts) if ((await measure(having([doubt]))) !== null) usable.push(doubt)
  const rest = having(usable)
  return finishDraft(rest, (await measure(rest)) ?? [])
}

/** Classifies the tables, and reads the tenants and the lists of labels of those to propose. */
async function classifySchema(
  read: ReadTransaction,
  found: {
    readonly all: readonly TableOverview[]
    readonly references: readonly ForeignKey[]
    readonly tables: readonly IntrospectedTable[]
    readonly relations: readonly TableRelation[]
    readonly isNamed: (table: IntrospectedTable) => boolean
  },
): Promise<ClassifiedSchema> {
  const { all, relations, tables, isNamed } = found
  const suggested = relations.map(({ from, to, columns }) => ({
    from: from.sqlName,
    to: to.sqlName,
    columns,
  }))
  const staff = findStaffTables(all, [...found.references, ...suggested])
  // Users who each belong to one of many companies are their people, not those of the software.
  const isStaff = (one: IntrospectedTable): boolean =>
    staff.has(one.sqlName) && !belongToCompanies(one, relations)
  const context = { relations, isNamed, isStaff, isTenantTable: () => false }
  const parties = classifyTables(tables, context).tables.filter((one) => one.kinds.length > 0)
  const tenantColumns = new Map(
    tables.map((table) => [
      table.table.sql,
      findTenantColumns(table, { overviews: all, relations, isStaff: (sql) => staff.has(sql) }),
    ]),
  )
  const tenantTables = new Set(
    parties.flatMap(({ table }) => (tenantColumns.get(table.sql) ?? []).map((one) => one.table?.table.sql)),
  )
  const schema = classifyTables(tables, {
    ...context,
    isTenantTable: ({ table }) => tenantTables.has(table.sql) || isTenantName(table.name),
  })
  const complete: ClassifiedTable[] = []
  for (const table of schema.tables) {
    if (table.kinds.length === 0 && !isAddressList(table) && !table.company.has('city')) {
      complete.push(table)
      continue
    }
    let tenant: TenantChoice | null = null
    for (const column of tenantColumns.get(table.table.sql) ?? [])
      if (!column.isOwnCompany) tenant ??= await readRows(read, (db) => chooseTenant(db, table, column), null)
    const isParty = (one: IntrospectedTable): boolean =>
      schema.tables.some((other) => other.table.sql === one.table.sql && other.kinds.length > 0)
    const lookupsFor = (kind: SourceKind) => findLookupColumns(kind, table, relations, isParty)
    const lookups = { person: lookupsFor('person'), company: lookupsFor('company') }
    complete.push({ ...table, tenant, lookups })
  }
  return { ...schema, tables: setAside(complete) }
}

const listRejections = (
  schema: ClassifiedSchema,
  isWanted: (table: IntrospectedTable) => boolean,
  { doubtful }: { readonly doubtful: boolean },
): SkippedTable[] =>
  schema.tables.flatMap((one) =>
    one.rejection === null || !isWanted(one) || (one.isUncertain && !doubtful)
      ? []
      : [{ table: one.sqlName, reason: one.rejection }],
  )

/**
 * Proposes sources for the named tables, or for all tables if none is named.
 * @param onTable called before a table's rows are read
 * @throws ConfigProblems if a named table does not exist
 */
export async function proposeForTables(
  db: Database,
  names: readonly string[],
  onTable: NonNullable<ProposeOptions['onTable']>,
): Promise<Proposal> {
  const named = names.map((word) => ({ word, ...parseTableName(word) }))
  // A shell takes the quotes away from "Contact": the name as it is spelled counts, too.
  const isNamed = (name: (typeof named)[number], table: TableName): boolean =>
    (name.table === table.name && (name.schema === null || name.schema === table.schema)) ||
    name.word === table.name ||
    name.word === `${table.schema}.${table.name}`
  if (named.length > 0) {
    const tables = (await listTables(db)).map(({ schema, table }) => ({ schema, name: table }))
    const missing = named.find((name) => !tables.some((table) => isNamed(name, table)))
    if (missing) throw noSuchTableProblem(missing.word, tables)
  }
  return proposeSources((act, timeoutMs) => inTransaction(db, act, timeoutMs), {
    wanted: named.length === 0 ? null : (table) => named.some((name) => isNamed(name, table)),
    onTable,
  })
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
