import type { ClassifiedTable } from './classify.ts'
import { readFlags } from './flags.ts'
import type { CandidateField } from './fields.ts'
import type { ProposedSource, TableExplanation } from './proposal.ts'
import type { TableRelation } from './relations.ts'
import { headNoun } from './words.ts'

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
  const isAsked = sources.some(({ questions }) => questions.some(({ about }) => about.split('.')[0] === name))
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

/** Beside a table of contacts, those who sign in or applied for a job are none of them. Pure. */
export function setAside(tables: readonly ClassifiedTable[]): ClassifiedTable[] {
  const reasonOf = ({ table, isUsers }: ClassifiedTable): string | null => {
    if (isUsers) return 'its rows sign in to your software; there is a table of contacts beside it'
    const isApplicants = /^(?:candidate|applicant)$/.test(headNoun(table.name))
    return isApplicants ? 'its rows applied for a job; there is a table of contacts beside it' : null
  }
  const hasPeople = tables.some((one) => one.kinds.includes('person') && reasonOf(one) === null)
  const hasContacts = (schema: string): boolean =>
    tables.some(
      ({ table, kinds, partyType }) =>
        table.schema === schema &&
        kinds.includes('person') &&
        partyType === null &&
        /^(?:contact|person)$/.test(headNoun(table.name)),
    )
  return tables.map((one) => {
    // Beside contacts, the persons among the customers are private ones.
    if (one.partyType?.isFlag === true && one.kinds.length > 1 && hasContacts(one.table.schema))
      return { ...one, kinds: ['company'] as const }
    const reason = one.kinds.length > 0 && hasPeople && !one.isNamed ? reasonOf(one) : null
    return reason === null ? one : { ...one, kinds: [], rejection: reason }
  })
}
