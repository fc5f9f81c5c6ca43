import type { ClassifiedTable } from './classify.ts'
import { readFlags } from './flags.ts'
import type { CandidateField } from './fields.ts'
import type { ProposedSource, TableExplanation } from './proposal.ts'
import type { TableRelation } from './relations.ts'

/** Explains what was made of each column of a table. Pure. */
export function explainTable(
  classified: ClassifiedTable,
  relations: readonly TableRelation[],
  sources: readonly ProposedSource[],
): TableExplanation {
  const { table, sqlName, kinds, rejection, sampled } = classified
  const own = sources.filter((one) => one.table === sqlName)
  const rows = `${sampled} rows sampled`
  return {
    table: sqlName,
    verdict:
      own.length > 0
        ? `${own.map(({ name, kind }) => `${kind === 'person' ? 'people' : 'companies'} (${name})`).join(' and ')}, ${rows}`
        : `left: ${rejection ?? (kinds.length > 0 ? 'nothing identifies its rows, or it has nothing to fill' : 'neither its name nor its columns look like people or companies')}, ${rows}`,
    columns: table.columns.map((column) => ({
      column: column.name,
      type: column.type.name,
      said:
        explainColumn(column.name, classified, relations, own).join('; ') || 'nothing by its name and values',
    })),
  }
}

function explainColumn(
  name: string,
  classified: ClassifiedTable,
  relations: readonly TableRelation[],
  sources: readonly ProposedSource[],
): string[] {
  const { fields, table, person, company } = classified
  const isOf = (field: CandidateField): boolean => field.column.name === name
  const roles = [...new Set([...person, ...company].flatMap(([role, field]) => (isOf(field) ? [role] : [])))]
  const key = relations.find(({ from, columns }) => from.table.sql === table.sql && columns.includes(name))
  const field = fields.find((one) => isOf(one) && one.path.length === 0)
  const flags = readFlags(classified, 't', classified.kinds[0] ?? 'person').filter(
    ({ column, isSure }) => column === name && isSure,
  )
  const isAsked =
    flags.length === 0 &&
    sources.some(({ questions }) => questions.some(({ about }) => about.split('.')[0] === name))
  const outputs = sources.flatMap((one) => one.outputs.filter(({ column }) => column.split('.')[0] === name))
  const skipped = sources.flatMap((one) => one.skippedColumns.filter(({ column }) => column === name))
  return [
    ...(table.primaryKey.includes(name) ? ['part of the primary key'] : []),
    ...(key === undefined ? [] : [`key of ${key.to.sqlName}`]),
    ...(roles.length === 0 ? [] : [`read as ${roles.join(', ').replaceAll('_', ' ')}`]),
    ...(field?.labels === undefined ? [] : [`a list of ${field.labels.length} labels`]),
    ...(field?.codes === undefined ? [] : ['its comment explains its codes']),
    ...flags.map(({ meaning }) => `leaves rows out (${meaning ?? 'flag'})`),
    ...(isAsked ? ['a question: does it leave rows out?'] : []),
    ...new Set(
      outputs.map(({ field: filled, map }) => `filled with ${filled}${map ? ' through a map' : ''}`),
    ),
    ...new Set(skipped.map(({ reason }) => `not filled: it ${reason}`)),
  ]
}
