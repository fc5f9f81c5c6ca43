import type { InputName, SourceKind } from '../../domain/mapping.ts'
import type { Column } from '../catalogue.ts'
import { aliveConditions, changeColumn, tenantColumns } from './alive.ts'
import { nameInSql, type Field } from './field.ts'
import { outputFor, outputRoles } from './outputs.ts'
import { phoneParts } from './phone.ts'
import { placeOutputs } from './place.ts'
import type { Picks } from './pick.ts'
import type { LeftOut, ProposedOutput, ProposedSource } from './proposal.ts'
import type { Role } from './role.ts'
import type { Judged } from './world.ts'

/** A source before its inputs are settled: what may identify its rows, to be measured on some of them. */
export interface Draft {
  readonly base: Omit<ProposedSource, 'inputs' | 'outputs' | 'leftOut' | 'sample'>
  readonly judged: Judged
  readonly picks: Picks
  /** Expressions that are inputs in any case. */
  readonly inputs: Readonly<Partial<Record<InputName, string>>>
  /** Expressions over columns that are inputs where they identify rows, and else are filled themselves. */
  readonly spare: { readonly profile?: Field; readonly company?: Field; readonly mail?: string }
}

/** What every source of a table has. */
export function baseOf(
  judged: Judged,
  kind: SourceKind,
  more: { readonly name: string; readonly joins: string | null; readonly where: readonly string[] },
): Draft['base'] {
  const { table } = judged
  const conditions = [...aliveConditions(judged, 't'), ...more.where]
  const changed = changeColumn(judged)
  const isIndexed = changed !== null && judged.indexed.includes(changed.name)
  const tenants = tenantColumns(judged, judged.references).map((column) => `t.${nameInSql(column)}`)
  return {
    name: more.name,
    kind,
    table: judged.inSql,
    rows: judged.rows,
    joins: more.joins,
    key: table.primaryKey.length > 0 ? null : uniqueKey(judged),
    where: conditions.length === 0 ? null : conditions.join(' and '),
    changedAt: isIndexed ? `t.${nameInSql(changed.name)}` : null,
    touch: changed?.canUpdate === true ? { column: changed.name, sql: nowAs(changed) } : null,
    notes: [
      ...(tenants.length > 0
        ? [`Rows of every tenant. For one alone, add to \`where\`: ${tenants.join(', ')} = …`]
        : []),
      ...(changed !== null && !isIndexed ? [changedAtAdvice(judged, changed)] : []),
    ],
  }
}

/** What would make a pass cost what has changed. */
const changedAtAdvice = ({ inSql }: Judged, { name }: Column): string =>
  `With an index, a pass costs what has changed: create index concurrently on ${inSql} (${nameInSql(name)}); ` +
  `then add changedAt: 't.${nameInSql(name)}'`

/** A time without a zone is kept in UTC by those who keep it well. */
const nowAs = ({ type }: Column): string =>
  type.fit.kind === 'timestamp' ? "now() at time zone 'UTC'" : 'now()'

/** Without a primary key: the unique index that has no columns which may be null, else any. */
function uniqueKey({ table }: Judged): readonly string[] | null {
  const isWhole = (key: readonly string[]): boolean =>
    key.every((name) => table.columns.find((column) => column.name === name)?.notNull === true)
  return table.uniqueKeys.find(isWhole) ?? table.uniqueKeys[0] ?? null
}

/** What can be filled of the picked fields. Those that inputs are read from can't. Pure. */
export function outputsOf(
  draft: Pick<Draft, 'judged' | 'picks' | 'base'>,
  inputs: ReadonlySet<Field>,
  roles: readonly Role[] = outputRoles(draft.base.kind),
): { outputs: ProposedOutput[]; leftOut: LeftOut[] } {
  const { judged, picks, base } = draft
  const outputs: ProposedOutput[] = []
  const leftOut: LeftOut[] = []
  for (const role of roles) {
    const field = picks.get(role)
    if (field === undefined || inputs.has(field)) continue
    const refusal = refusalOf(field, judged, base.key)
    if (refusal !== null) {
      leftOut.push({ column: field.name, why: refusal })
      continue
    }
    const made = outputFor(base.kind, role, field, judged)
    if ('why' in made) leftOut.push(made)
    else outputs.push(...(role === 'phone' ? phoneParts(made, field, judged) : [made]))
  }
  return { outputs: placeOutputs(outputs, judged), leftOut }
}

/** Why a column can't be written, whatever it holds. */
function refusalOf({ column, path }: Field, judged: Judged, key: readonly string[] | null): string | null {
  const { name } = column
  if ((key ?? judged.table.primaryKey).includes(name)) return 'is part of the key'
  if (column.isGenerated) return 'is made by the database itself'
  if (column.isIdentity) return 'is numbered by the database itself'
  if (judged.references.has(name) && path.length === 0) return 'holds the key of another row'
  if (!column.canUpdate) return 'may not be updated by this role'
  return null
}
