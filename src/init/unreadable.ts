import { formatTableName } from '../sources/quote.ts'
import { type ForeignKey, type TableOverview } from './introspect.ts'
import { nameHint } from './kinds.ts'
import { sayingOf } from './meanings.ts'
import type { ProposedSource, SkippedTable } from './proposal.ts'
import { isSuppressionName } from './table-names.ts'
import { singularize, splitIdentifier } from './words.ts'

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
): SkippedTable[] {
  const reasonOf = (one: TableOverview): string | null => {
    if (isObjections(one)) return 'it may say who must not be contacted'
    const isParty = (['person', 'company'] as const).some((kind) => nameHint(kind, one.name) === 'strong')
    if (isParty && wanted?.(one) !== false) return 'it may hold people or companies'
    const key = references.find(({ from, to, columns }) => {
      const owner = to === one.sqlName
      const source = owner && sources.find(({ table }) => table === from)
      return (
        source && [...source.outputs, ...source.skippedColumns].some(({ column }) => columns.includes(column))
      )
    })
    return key === undefined ? null : `it lists the values of ${key.columns.join(', ')}`
  }
  return all.flatMap((one) => {
    const said = one.canRead ? null : reasonOf(one)
    if (said === null) return []
    const table = formatTableName(one.schema, one.name)
    return [
      {
        table,
        reason: `${said}, and this role may not read it: grant select on ${table}, with a policy where it has row-level security`,
      },
    ]
  })
}

const isObjections = ({ name }: TableOverview): boolean => {
  const meaning = sayingOf(splitIdentifier(name).map(singularize))?.meaning
  return meaning === 'objection' || meaning === 'consent' || isSuppressionName(name)
}

/** What to say with each source of what was not looked at of who must not be contacted; null if there is nothing. Pure. */
export function noteObjections(all: readonly TableOverview[]): string | null {
  const tables = all
    .filter((one) => !one.canRead && isObjections(one))
    .map((one) => formatTableName(one.schema, one.name))
  return tables.length === 0
    ? null
    : `Who must not be contacted may stand in ${tables.join(', ')}, which this role may not read.`
}
