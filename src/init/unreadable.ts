import { quoteIfNeeded } from './fields.ts'
import { type ForeignKey, type TableOverview, overviewSql } from './introspect.ts'
import { nameHint } from './kinds.ts'
import { sayingOf } from './meanings.ts'
import type { ProposedSource, SkippedTable } from './proposal.ts'
import { isSuppressionName } from './table-names.ts'
import { singularize, splitIdentifier } from './words.ts'

/** A table that this role may not read. */
export interface UnreadableTable extends SkippedTable {
  /** Whether it may say who must not be contacted. */
  readonly isAboutObjections: boolean
}

/**
 * Tables that this role may not read, and that decide what a proposal is worth: people and companies, who must not be contacted, and the
 * lists of the values of a column to fill. A proposal with fewer rights must not silently be another one. Pure.
 */
export function listUnreadable(
  all: readonly TableOverview[],
  references: readonly ForeignKey[],
  {
    wanted,
    sources,
  }: {
    readonly wanted: ((table: TableOverview) => boolean) | null
    readonly sources: readonly Pick<ProposedSource, 'table' | 'outputs' | 'skippedColumns'>[]
  },
): UnreadableTable[] {
  const reasonOf = (one: TableOverview): string | null => {
    if (isObjections(one)) return 'it may say who must not be contacted'
    const isParty = (['person', 'company'] as const).some((kind) => nameHint(kind, one.name) === 'strong')
    if (isParty && wanted?.(one) !== false) return 'it may hold people or companies'
    const key = references.find(({ from, to, columns }) => {
      const owner = to === overviewSql(one) && all.find((table) => overviewSql(table) === from)
      const source = owner && sources.find(({ table }) => table === owner.sqlName)
      return (
        source && [...source.outputs, ...source.skippedColumns].some(({ column }) => columns.includes(column))
      )
    })
    return key === undefined ? null : `it lists the values of ${key.columns.join(', ')}`
  }
  return all.flatMap((one) => {
    const reason = one.canRead ? null : reasonOf(one)
    if (reason === null) return []
    const table = `${quoteIfNeeded(one.schema)}.${quoteIfNeeded(one.name)}`
    return [
      {
        table,
        reason: `${reason}, and this role may not read it: grant select on ${table}, with a policy where it has row-level security`,
        isAboutObjections: isObjections(one),
      },
    ]
  })
}

const isObjections = ({ name }: TableOverview): boolean => {
  const meaning = sayingOf(splitIdentifier(name).map(singularize))?.meaning
  return meaning === 'objection' || meaning === 'consent' || isSuppressionName(name)
}

/** A source with what was not looked at of who must not be contacted. Pure. */
export function withObjections(
  source: ProposedSource,
  unreadable: readonly UnreadableTable[],
): ProposedSource {
  const tables = unreadable.flatMap(({ table, isAboutObjections }) => (isAboutObjections ? [table] : []))
  if (tables.length === 0) return source
  const note = `Who must not be contacted may stand in ${tables.join(', ')}, which this role may not read.`
  return { ...source, notes: [...source.notes, note] }
}
