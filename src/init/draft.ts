import type { InputName, SourceKind } from '../domain/mapping.ts'
import type { Column } from '../sources/catalogue.ts'
import { findChangeColumn, findTenantColumns, notDeletedConditions } from './row-filters.ts'
import { type CandidateField, quoteIfNeeded } from './fields.ts'
import { groupPlaceOutputs, outputRoles, proposeOutput, splitPhoneOutput } from './outputs.ts'
import type { RoleFields } from './assign-roles.ts'
import type { ProposedOutput, ProposedSource, SkippedColumn } from './proposal.ts'
import type { ColumnRole } from './roles.ts'
import type { ClassifiedTable } from './classify.ts'

/** A source before its inputs are settled: what may identify its rows, to be measured on some of them. */
export interface Draft {
  readonly base: Omit<ProposedSource, 'inputs' | 'outputs' | 'leftOut' | 'sample'>
  readonly judged: ClassifiedTable
  readonly picks: RoleFields
  /** Expressions that are inputs in any case. */
  readonly inputs: Readonly<Partial<Record<InputName, string>>>
  /** Expressions over columns that are inputs where they identify rows, and else are filled themselves. */
  readonly fallbackInputs: {
    readonly profile?: CandidateField
    readonly company?: CandidateField
    readonly mail?: string
  }
}

/** What every source of a table has. */
export function createDraftBase(
  judged: ClassifiedTable,
  kind: SourceKind,
  more: { readonly name: string; readonly joins: string | null; readonly where: readonly string[] },
): Draft['base'] {
  const { table } = judged
  const conditions = [...notDeletedConditions(judged, 't'), ...more.where]
  const changed = findChangeColumn(judged)
  const isIndexed = changed !== null && judged.indexedColumns.includes(changed.name)
  const tenants = findTenantColumns(judged, judged.references).map((column) => `t.${quoteIfNeeded(column)}`)
  return {
    name: more.name,
    kind,
    table: judged.sqlName,
    rows: judged.rows,
    joins: more.joins,
    key: table.primaryKey.length > 0 ? null : findUniqueKey(judged),
    where: conditions.length === 0 ? null : conditions.join(' and '),
    changedAt: isIndexed ? `t.${quoteIfNeeded(changed.name)}` : null,
    touch: changed?.canUpdate === true ? { column: changed.name, sql: currentTimeSql(changed) } : null,
    notes: [
      ...(tenants.length > 0
        ? [`Rows of every tenant. For one alone, add to \`where\`: ${tenants.join(', ')} = …`]
        : []),
      ...(changed !== null && !isIndexed ? [changedAtAdvice(judged, changed)] : []),
    ],
  }
}

/** What would make a pass cost what has changed. */
const changedAtAdvice = ({ sqlName }: ClassifiedTable, { name }: Column): string =>
  `With an index, a pass costs what has changed: create index concurrently on ${sqlName} (${quoteIfNeeded(name)}); ` +
  `then add changedAt: 't.${quoteIfNeeded(name)}'`

/** A time without a zone is kept in UTC by those who keep it well. */
const currentTimeSql = ({ type }: Column): string =>
  type.fit.kind === 'timestamp' ? "now() at time zone 'UTC'" : 'now()'

/** Without a primary key: the unique index that has no columns which may be null, else any. */
function findUniqueKey({ table }: ClassifiedTable): readonly string[] | null {
  const isWhole = (key: readonly string[]): boolean =>
    key.every((name) => table.columns.find((column) => column.name === name)?.notNull === true)
  return table.uniqueKeys.find(isWhole) ?? table.uniqueKeys[0] ?? null
}

/** What can be filled of the picked fields. Those that inputs are read from can't. Pure. */
export function proposeOutputs(
  draft: Pick<Draft, 'judged' | 'picks' | 'base'>,
  inputs: ReadonlySet<CandidateField>,
  roles: readonly ColumnRole[] = outputRoles(draft.base.kind),
): { outputs: ProposedOutput[]; leftOut: SkippedColumn[] } {
  const { judged, picks, base } = draft
  const outputs: ProposedOutput[] = []
  const leftOut: SkippedColumn[] = []
  for (const role of roles) {
    const field = picks.get(role)
    if (field === undefined || inputs.has(field)) continue
    const refusal = writeObstacle(field, judged, base.key)
    if (refusal !== null) {
      leftOut.push({ column: field.name, why: refusal })
      continue
    }
    const made = proposeOutput(base.kind, role, field, judged)
    if ('why' in made) leftOut.push(made)
    else outputs.push(...(role === 'phone' ? splitPhoneOutput(made, field, judged) : [made]))
  }
  return { outputs: groupPlaceOutputs(outputs, judged), leftOut }
}

/** Why a column can't be written, whatever it holds. */
function writeObstacle(
  { column, path }: CandidateField,
  judged: ClassifiedTable,
  key: readonly string[] | null,
): string | null {
  const { name } = column
  if ((key ?? judged.table.primaryKey).includes(name)) return 'is part of the key'
  if (column.isGenerated) return 'is made by the database itself'
  if (column.isIdentity) return 'is numbered by the database itself'
  if (judged.references.has(name) && path.length === 0) return 'holds the key of another row'
  if (!column.canUpdate) return 'may not be updated by this role'
  return null
}
