import pLimit from 'p-limit'
import type { SourceKind } from '../domain/mapping.ts'
import type { Draft } from './draft.ts'
import { draftSources } from './drafts.ts'
import { finishDraft, describeUnfilled, measureInputs } from './inputs.ts'
import type { PossibleSource, Proposal, ProposedSource, SkippedTable } from './proposal.ts'
import { explainTable } from './explain.ts'
import { joinConditions, selectQuestions } from './questions.ts'
import type { RowFlag } from './flag-sql.ts'
import {
  type TableRelation,
  confirmRelations,
  declaredRelations,
  inheritedRelations,
  suggestedRelations,
} from './relations.ts'
import { findLookupColumns } from './lookup-tables.ts'
import { findStaffTables } from './staff.ts'
import { findTenantColumns, isTenantName, tenantFlag } from './tenants.ts'
import {
  type ForeignKey,
  type IntrospectedTable,
  type TableOverview,
  MAX_READERS,
  introspectTable,
  listForeignKeys,
  listTableOverviews,
  readCatalogue,
  readRows,
} from './introspect.ts'
import { type ClassifiedSchema, classifyTables } from './classify.ts'
import { setAside } from './set-aside.ts'
import { explainUnread, listUnread, listUnreadParties, readRole } from './unreadable.ts'
import { type TableName, selectTables, shortlistTables } from './shortlist.ts'
import type { Database } from '../store/open.ts'
import { readTables } from '../sources/catalogue.ts'
import { quoteName } from '../sources/quote.ts'

/**
 * Proposes sources for the named tables, however weak the evidence, or for all tables if none is named. Reads the catalogue
 * and at most 200 rows of each of at most 200 tables. Writes nothing and keeps no value.
 * @param onTable called before a table's rows are read
 * @throws ConfigProblems if a named table does not exist
 */
export async function proposeForTables(
  db: Database,
  names: readonly string[],
  onTable: (table: TableName, n: number, of: number) => void = () => {},
): Promise<Proposal> {
  const all = await readCatalogue(db, listTableOverviews)
  const references = await readCatalogue(db, listForeignKeys)
  const role = await readCatalogue(db, readRole)
  const wanted = selectTables(all, names)
  const isWanted = ({ table }: { readonly table: TableName }): boolean => wanted === null || wanted(table)
  const likely = shortlistTables(all, references)
  const readable = all.filter(({ canRead }) => canRead)
  const chosen = [...new Set([...likely, ...all.filter((one) => wanted?.(one))])].filter((one) => one.canRead)
  const described = await readCatalogue(db, (tx) =>
    readTables(
      tx,
      chosen.map(({ sqlName }) => sqlName),
    ),
  )
  const bySql = new Map(described.map((table) => [table.sql, table]))
  const limit = pLimit(MAX_READERS)
  const tables = await Promise.all(
    chosen.flatMap((one, n) => {
      const table = bySql.get(`${quoteName(one.schema)}.${quoteName(one.name)}`)
      if (table === undefined) return []
      return limit(() => {
        onTable(one, n + 1, chosen.length)
        return introspectTable(db, one, table)
      })
    }),
  )
  const declared = declaredRelations(tables, references)
  const suggested = suggestedRelations(tables, declared)
  const confirmed = await readRows(db, (tx) => confirmRelations(tx, suggested), [])
  const found = [...declared, ...confirmed]
  const schema = classifySchema({
    all,
    references,
    tables,
    relations: [...found, ...inheritedRelations(found)],
    isNamed: (one) => wanted !== null && isWanted(one),
  })
  const { sources, possible, skipped } = await measureDrafts(
    db,
    draftSources(schema).filter(({ table }) => isWanted(table)),
  )
  const isListed = (table: string): boolean =>
    [...skipped, ...possible.map(({ source }) => source)].some((one) => one.table === table)
  const rejected = schema.tables.flatMap((one): SkippedTable[] =>
    one.rejection !== null && isWanted(one) && !isListed(one.sqlName)
      ? [{ table: one.sqlName, reason: one.rejection }]
      : [],
  )
  const unread = listUnread(all, { references, wanted, sources, role })
  const named = wanted === null ? [] : schema.tables.filter(isWanted)
  return {
    explained: [
      ...named.map((one) => explainTable(one, schema.relations, sources)),
      ...(wanted === null ? [] : explainUnread(unread)),
    ],
    sources,
    possible,
    skippedTables: [
      ...(wanted === null ? listUnreadParties(all, references, unread) : []),
      ...skipped,
      ...rejected,
    ],
    unread,
    role: role.name,
    examined: { tables: readable.length, schemas: [...new Set(readable.map((one) => one.schema))] },
  }
}

/** The sources that can be filled, and why other drafts are none. */
async function measureDrafts(
  db: Database,
  drafts: readonly Draft[],
): Promise<Pick<Proposal, 'sources' | 'possible'> & { readonly skipped: readonly SkippedTable[] }> {
  const sources: ProposedSource[] = []
  const possible: PossibleSource[] = []
  const skipped: SkippedTable[] = []
  const limit = pLimit(MAX_READERS)
  const measured = await Promise.all(
    drafts.map((draft) => limit(async () => ({ draft, source: await measureDraft(db, draft) }))),
  )
  for (const { draft, source } of measured) {
    const { leftFor } = draft
    const isFilled = typeof source !== 'string' && source.outputs.length > 0
    if (isFilled && leftFor === null) sources.push(source)
    else if (isFilled && leftFor !== null) possible.push({ source, reason: leftFor })
    // Of a table of addresses that nothing else speaks for, there is nothing to say.
    else if (leftFor === null || draft.table.rejection !== null) {
      const reason = leftFor ?? (typeof source === 'string' ? source : describeUnfilled(source))
      skipped.push({ table: draft.table.sqlName, reason })
    }
  }
  const shown = selectQuestions([...sources, ...possible.map(({ source }) => source)])
  return {
    sources: shown.slice(0, sources.length),
    possible: possible.map((one, n) => ({ ...one, source: shown[sources.length + n] ?? one.source })),
    skipped,
  }
}

/** A draft with its inputs. A doubt that cannot be computed, of a type that is not expected, costs itself and not the source. */
async function measureDraft(db: Database, draft: Draft): Promise<ProposedSource | string> {
  const { base } = draft
  const measure = (one: Draft): Promise<ProposedSource | string | null> =>
    readRows<ProposedSource | string | null>(
      db,
      async (tx) => finishDraft(one, await measureInputs(tx, one)),
      null,
    )
  const whole = await measure(draft)
  if (whole !== null) return whole
  const doubts: RowFlag[] = []
  for (const doubt of base.doubts)
    if ((await measure({ ...draft, base: { ...base, doubts: [doubt] } })) !== null) doubts.push(doubt)
  // What is sure leaves its rows out, whether they can be counted or not.
  const uncounted = base.doubts.filter((one) => one.isSure && !doubts.includes(one))
  const where = joinConditions([base.where, ...uncounted.map(({ keep }) => keep)])
  const rest = { ...draft, base: { ...base, doubts, where } }
  return (await measure(rest)) ?? finishDraft(rest, [])
}

/** Classifies the tables, with the tenants of their rows and the lists that these refer to. Pure. */
function classifySchema(found: {
  readonly all: readonly TableOverview[]
  readonly references: readonly ForeignKey[]
  readonly tables: readonly IntrospectedTable[]
  readonly relations: readonly TableRelation[]
  readonly isNamed: (table: IntrospectedTable) => boolean
}): ClassifiedSchema {
  const { all, references, relations, tables, isNamed } = found
  const keys = relations.map(({ from, to, columns }) => ({ from: from.sqlName, to: to.sqlName, columns }))
  const staff = findStaffTables(all, [...references, ...keys])
  const tenantColumns = new Map(
    tables.map((table) => [
      table.sqlName,
      findTenantColumns(table, { overviews: all, relations, isStaff: (name) => staff.has(name) }),
    ]),
  )
  const tenants = new Set([...tenantColumns.values()].flat().map(({ table }) => table?.sqlName))
  const schema = classifyTables(tables, {
    relations,
    isNamed,
    isStaff: ({ sqlName }) => staff.has(sqlName),
    isTenantTable: ({ sqlName, table }) => tenants.has(sqlName) || isTenantName(table.name),
  })
  const isParty = ({ sqlName }: IntrospectedTable): boolean =>
    schema.tables.some((one) => one.sqlName === sqlName && one.kinds.length > 0)
  const complete = schema.tables.map((table) => {
    const flags = (tenantColumns.get(table.sqlName) ?? []).map((one) => tenantFlag(one, table))
    const lookupsFor = (kind: SourceKind) => findLookupColumns(kind, table, relations, isParty)
    return {
      ...table,
      tenant: flags.find((one) => one !== null) ?? null,
      lookups: { person: lookupsFor('person'), company: lookupsFor('company') },
    }
  })
  return { ...schema, tables: setAside({ ...schema, tables: complete }) }
}
