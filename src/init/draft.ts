import { quoteIfNeeded } from '../sources/quote.ts'
import type { InputName, SourceKind } from '../domain/mapping.ts'
import type { Column } from '../sources/catalogue.ts'
import { findChangeColumn, findFreshnessColumn } from './row-filters.ts'
import type { RowFlag } from './flag-sql.ts'
import { readFlags, roleColumns } from './flags.ts'
import type { RowContext } from './meanings.ts'
import { type CandidateField, isInList } from './fields.ts'
import { MAY_NOT_UPDATE } from './unreadable.ts'
import { onePlace, proposeOutput } from './outputs.ts'
import { type RoleFields, isGuess } from './assign-roles.ts'
import { joinConditions } from './questions.ts'
import type { ProposedOutput, ProposedSource, SkippedColumn } from './proposal.ts'
import { type ColumnRole, outputField, rolesOf } from './roles.ts'
import type { ClassifiedTable } from './classify.ts'

/** A source before its inputs are measured on sampled rows. */
export interface Draft {
  readonly base: Omit<ProposedSource, 'inputs' | 'outputs' | 'skippedColumns' | 'sample' | 'questions'> & {
    /** What is not sure about its rows. */
    readonly doubts: readonly RowFlag[]
  }
  readonly table: ClassifiedTable
  /** Why it is left unless a person says that its rows are meant; null if it is proposed. */
  readonly leftFor: string | null
  readonly roleFields: RoleFields
  /** Expressions that identify its rows. */
  readonly inputs: Readonly<Partial<Record<InputName, string>>>
  /** Fields that the inputs read. */
  readonly inputFields: ReadonlySet<CandidateField>
}

/** The part that every source of a table has. */
export function createDraftBase(
  classified: ClassifiedTable,
  kind: SourceKind,
  more: {
    readonly name: string
    readonly joins: string | null
    readonly where: readonly string[]
    readonly context?: RowContext
    /** What other tables say of the rows. */
    readonly flags?: readonly RowFlag[]
    /** What is not sure about the rows of the source that these belong to. */
    readonly doubts?: readonly RowFlag[]
  },
): Draft['base'] {
  const { table, tenant } = classified
  const context = more.context ?? kind
  const changed = findChangeColumn(classified)
  const freshness = findFreshnessColumn(classified)
  const known = new Set([
    ...roleColumns(classified),
    ...classified.lookups[kind].map(({ field }) => field.name),
    ...[tenant?.column, freshness, changed?.name].filter((one) => typeof one === 'string'),
  ])
  const own = readFlags(classified, 't', context).filter(
    ({ meaning, column }) => meaning !== null || !known.has(column),
  )
  const flags = [...own, ...(more.flags ?? [])]
  const doubts = [...(tenant === null ? [] : [tenant]), ...flags, ...(more.doubts ?? [])]
  const ranked = doubts.toSorted((a, b) => doubtRank(a) - doubtRank(b))
  const uncounted = new Set(ranked.slice(MAX_DOUBTS))
  const isIndexed = changed !== null && classified.indexedColumns.includes(changed.name)
  return {
    name: more.name,
    kind,
    table: classified.sqlName,
    rows: classified.rows,
    joins: more.joins,
    key: table.primaryKey.length > 0 ? null : findUniqueKey(classified),
    where: joinConditions([
      ...more.where,
      ...[...uncounted].flatMap(({ isSure, keep }) => (isSure ? [keep] : [])),
    ]),
    changedAt: isIndexed ? `t.${quoteIfNeeded(changed.name)}` : null,
    freshness,
    doubts: doubts.filter((one) => !uncounted.has(one)),
    touch: changed?.canUpdate === true ? { column: changed.name, sql: currentTimeSql(changed) } : null,
    notes: [
      ...(changed !== null && !isIndexed ? [changedAtAdvice(classified, changed)] : []),
      ...(uncounted.size > 0
        ? [`Not looked at: ${uncounted.size} more tables and columns that may divide its rows.`]
        : []),
    ],
  }
}

/** What is sure, then what is understood, then what its own columns say. Counting hundreds of others takes too long. */
const doubtRank = ({ isSure, meaning, isOfOther }: RowFlag): number =>
  isSure ? 0 : meaning !== null ? 1 : isOfOther === true ? 3 : 2
const MAX_DOUBTS = 64

/** How to make a pass read only what changed. */
const changedAtAdvice = ({ sqlName }: ClassifiedTable, { name }: Column): string =>
  `With an index, a pass reads only changed rows: create index concurrently on ${sqlName} (${quoteIfNeeded(name)}); ` +
  `then add changedAt: 't.${quoteIfNeeded(name)}'`

/** A timestamp without a zone holds UTC in a well-kept database. */
const currentTimeSql = ({ type }: Column): string =>
  type.fit.kind === 'timestamp' ? "now() at time zone 'UTC'" : 'now()'

/** The key of a table without a primary key: a unique index over columns that are not null, else any unique index. */
function findUniqueKey({ table }: ClassifiedTable): readonly string[] | null {
  const isWhole = (key: readonly string[]): boolean =>
    key.every((name) => table.columns.find((column) => column.name === name)?.notNull === true)
  return table.uniqueKeys.find(isWhole) ?? table.uniqueKeys[0] ?? null
}

/** The outputs among the assigned fields and the columns that refer to lists of labels. Pure. */
export function proposeOutputs(draft: Draft): { outputs: ProposedOutput[]; skippedColumns: SkippedColumn[] } {
  const { table, roleFields, base, inputFields } = draft
  const outputs: ProposedOutput[] = []
  const skippedColumns: SkippedColumn[] = []
  const add = (made: ProposedOutput | SkippedColumn): void => {
    if ('reason' in made) skippedColumns.push(made)
    else outputs.push(made)
  }
  for (const role of rolesOf(base.kind).filter((one) => outputField(base.kind, one) !== null)) {
    for (const lookup of table.lookups[base.kind].filter((one) => one.role === role)) {
      const { field, made } = lookup
      const refusal = writeObstacle(field, { ...table, references: new Set() }, base.key)
      add(refusal === null ? made : { column: field.name, reason: refusal })
    }
    const field = roleFields.get(role)
    if (field === undefined || (inputFields.has(field) && !INPUT_AND_OUTPUT.has(role))) continue
    const refusal = writeObstacle(field, table, base.key)
    if (refusal !== null) {
      add({ column: field.name, reason: refusal })
      continue
    }
    if (table.sampled >= MANY_ROWS && field.path.length === 0 && field.values.length === table.sampled) {
      add({ column: field.name, reason: 'is never blank in the sample' })
      continue
    }
    const made = proposeOutput(base.kind, role, field, table)
    if ('reason' in made) add(made)
    else if (isGuess(role, field, table))
      add({ column: field.name, reason: 'is a guess by its name', output: made })
    else add(made)
  }
  return { outputs: onePlace(outputs, table), skippedColumns }
}

/** Fewer rows do not show that a column is always filled. */
const MANY_ROWS = 100

/** An input that is filled where it is blank: it is then not looked up by what Fillrate wrote. */
const INPUT_AND_OUTPUT: ReadonlySet<ColumnRole> = new Set(['profile', 'company_name'])

/** Why the column cannot be written, whatever it holds; null if it can. */
function writeObstacle(
  { column, path }: Pick<CandidateField, 'column' | 'path'>,
  classified: ClassifiedTable,
  key: readonly string[] | null,
): string | null {
  const { name } = column
  if ((key ?? classified.table.primaryKey).includes(name)) return 'is part of the key'
  if (column.isGenerated) return 'is generated by the database'
  if (column.isIdentity) return 'is an identity column'
  if (classified.references.has(name) && path.length === 0) return 'refers to another row'
  if (isInList({ path })) return 'is inside a list'
  if (!column.canUpdate) return MAY_NOT_UPDATE
  return null
}
