import type { SourceKind } from '../domain/mapping.ts'
import { type RoleFields, assignRoles, holdsAny } from './assign-roles.ts'
import type { CandidateField } from './fields.ts'
import type { TableRelation } from './relations.ts'
import { findKinds, haveOwnAddress } from './kinds.ts'
import { type PartyTypeFilter, findPartyTypeFilter } from './row-filters.ts'
import type { IntrospectedTable } from './introspect.ts'
import type { LookupColumn } from './lookup-tables.ts'
import { isSuppressionName } from './meanings.ts'
import { isMemberList } from './staff.ts'
import type { RowFlag } from './flag-sql.ts'
import { headNoun, splitIdentifier, toWordSet } from './words.ts'

/** A table with the roles of its columns, and whether its rows are people or companies. */
export interface ClassifiedTable extends IntrospectedTable {
  /** Columns that hold the keys of other rows. */
  readonly references: ReadonlySet<string>
  readonly person: RoleFields
  readonly company: RoleFields
  /** The column by whose address a row is that of a person, whatever else the rows are. */
  readonly address: CandidateField | null
  /** Columns that refer to lists of labels, by the kind of source that fills them. */
  readonly lookups: Readonly<Record<SourceKind, readonly LookupColumn[]>>
  /** Whether only the rows of one tenant are meant, if they belong to several. */
  readonly tenant: RowFlag | null
  /** Both kinds if the table holds both; empty if it holds neither. */
  readonly kinds: readonly SourceKind[]
  /** What its rows are if a person says so, in place of the reason for which it is left. */
  readonly possible: readonly SourceKind[]
  /** What its rows are, of a table that cannot be written: of a mirror, whose rows others beside it have the keys of. */
  readonly mirrored: readonly SourceKind[]
  /** Whether its rows are the users' own staff, or users of their software. */
  readonly isStaff: boolean
  /** Whether its rows are the tenants of the software. */
  readonly isTenants: boolean
  /** Conditions that separate people from companies, if the table has a column for it. */
  readonly partyType: PartyTypeFilter | null
  /** Why a table that looks suitable is not proposed; null if it does not look suitable, or is proposed. */
  readonly rejection: string | null
  /** Whether the user named it. */
  readonly isNamed: boolean
}

export interface ClassifiedSchema {
  readonly tables: readonly ClassifiedTable[]
  readonly relations: readonly TableRelation[]
}

/** What is known of a database beside the tables themselves. */
interface ClassifyContext {
  readonly relations: readonly TableRelation[]
  /** Whether the user named the table: it is then classified however weak the evidence. */
  readonly isNamed: (table: IntrospectedTable) => boolean
  readonly isStaff: (table: IntrospectedTable) => boolean
  readonly isTenantTable: (table: IntrospectedTable) => boolean
}

/** Classifies each table. Pure. */
export function classifyTables(
  tables: readonly IntrospectedTable[],
  context: ClassifyContext,
): ClassifiedSchema {
  return { tables: tables.map((one) => classifyTable(one, context)), relations: context.relations }
}

function classifyTable(surveyed: IntrospectedTable, context: ClassifyContext): ClassifiedTable {
  const { table } = surveyed
  const { relations } = context
  const isNamed = context.isNamed(surveyed)
  const references = new Set(
    relations.filter((one) => one.from.table.sql === table.sql).flatMap((one) => one.columns),
  )
  const person = assignRoles(surveyed, 'person', references)
  const company = assignRoles(surveyed, 'company', references)
  // A lead is a person, who may be a private one: whether they are does not tell people from companies.
  const isPeople = /^(?:lead|prospect)$/.test(headNoun(table.name)) && person.has('company_name')
  const partyType = isPeople
    ? null
    : findPartyTypeFilter(surveyed, {
        person: person.get('first_name') ?? person.get('last_name'),
        company: person.get('company_name') ?? company.get('name'),
      })
  const classified = { ...surveyed, references, person, company, partyType }
  const kinds = findKinds(classified, isNamed)
  const isLike = (kind: SourceKind): boolean => haveOwnAddress(kind, classified)
  const likely = kinds.length > 0 ? kinds : (['person', 'company'] as const).filter(isLike).slice(0, 1)
  const obstacle = likely.length > 0 ? findObstacle(classified) : null
  const isJudged = likely.length > 0 && !isNamed
  const copy = isJudged ? findCopyOrList(classified) : null
  const content = copy ?? (isJudged ? findOtherParties(classified, context) : null)
  const rejection = (kinds.length > 0 ? obstacle : null) ?? content
  const isPossible = obstacle === null && copy === null && (content !== null || kinds.length === 0)
  const isMirror = obstacle !== null && content === null && table.kind === 'table'
  return {
    ...classified,
    address: findAddress(surveyed),
    lookups: { person: [], company: [] },
    isStaff: context.isStaff(surveyed),
    isTenants: context.isTenantTable(surveyed),
    tenant: null,
    isNamed,
    kinds: rejection === null ? kinds : [],
    possible: isPossible ? likely : [],
    mirrored: isMirror ? kinds : [],
    rejection,
  }
}

function findAddress({ fields }: IntrospectedTable): CandidateField | null {
  const texts = fields.filter(
    ({ path, fit, column }) => path.length === 0 && fit.kind === 'text' && column.canSelect,
  )
  const holding = texts.filter(({ values }) => holdsAny('email', values))
  const named = texts.find(
    (one) => one.words.includes('email') && (one.values.length === 0 || holding.includes(one)),
  )
  return named ?? holding[0] ?? null
}

/** Why the rows of a table cannot be written. */
function findObstacle({ table }: IntrospectedTable): string | null {
  if (table.kind !== 'table') return `a ${table.kind}: rows can only be locked in a table`
  if (table.uniqueKeys.length === 0)
    return 'it has no primary key and no unique index: its rows cannot be identified'
  return table.columns.some((column) => column.canUpdate) ? null : 'this role may not update it'
}

/** What a table holds that looks like people or companies and is never meant. */
function findCopyOrList({ table }: IntrospectedTable): string | null {
  const past = findHistoryWord(table.name) ?? findAsideWord(table.schema)
  if (past !== undefined) return `its name indicates other content: '${past}'`
  return isSuppressionName(table.name) ? 'its rows are who must not be contacted' : null
}

/** What people or companies it holds that are hardly those to enrich. */
function findOtherParties(
  surveyed: IntrospectedTable,
  context: Pick<ClassifyContext, 'isStaff' | 'isTenantTable'>,
): string | null {
  const { table } = surveyed
  const head = headNoun(table.name)
  if (OTHER_PARTIES.has(head)) return `its name says that its rows are no customers: '${head}'`
  if (isMemberList(table.name)) return 'its rows put people of other tables on a list'
  if (context.isTenantTable(surveyed))
    return 'its rows are the tenants of your software: other tables belong to them'
  return context.isStaff(surveyed) ? 'its rows are your own staff, or sign in to your software' : null
}

/** Relations from one table to another. */
export function relationsBetween(
  { relations }: ClassifiedSchema,
  from: IntrospectedTable,
  to: IntrospectedTable,
): readonly TableRelation[] {
  const index = BETWEEN.get(relations) ?? indexRelations(relations)
  BETWEEN.set(relations, index)
  return index.get(from.sqlName)?.get(to.sqlName) ?? []
}

/** By the table that refers, then by the one that it refers to: every pair of tables is looked up, for each row's table. */
const indexRelations = (relations: readonly TableRelation[]): RelationIndex =>
  new Map(
    [...Map.groupBy(relations, ({ from }) => from.sqlName)].map(([from, some]) => [
      from,
      Map.groupBy(some, ({ to }) => to.sqlName),
    ]),
  )

type RelationIndex = ReadonlyMap<string, ReadonlyMap<string, readonly TableRelation[]>>
const BETWEEN = new WeakMap<readonly TableRelation[], RelationIndex>()

/** Other content, if a table's name ends so. */
const HISTORY_NOUNS = toWordSet(
  'case ticket log audit aud history archive backup version event fact snapshot queue migration session',
)

const OTHER_PARTIES = toWordSet('supplier vendor competitor guest')

/** Other content, if a table's name says so anywhere. */
const HISTORY_WORDS = toWordSet(
  'historical legacy deprecated shadow logs audit history archive archived backup bak tmp temp staging stage old copy dim fct stg mart marts snapshot import export raw order invoice test',
)

const ASIDE = toWordSet('test sandbox staging template backup backups bak archive archived old')

/** The word in a schema's name that says it holds copies or what is tried out. */
export const findAsideWord = (schema: string): string | undefined =>
  splitIdentifier(schema).find((word) => ASIDE.has(word))

/** The word in a table's name that says it holds history, copies or temporary data. */
export const findHistoryWord = (table: string): string | undefined =>
  // `demo_requests` are requests for one.
  splitIdentifier(table.replace(/demo/i, '')).find((word) => HISTORY_WORDS.has(word)) ??
  [headNoun(table)].find((word) => HISTORY_NOUNS.has(word))
