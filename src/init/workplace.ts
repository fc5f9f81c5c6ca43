import type { ClassifiedSchema, ClassifiedTable } from './classify.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { exclusionConditions } from './flags.ts'
import { sayingOf } from './meanings.ts'
import { linkedCompany, subselect } from './related-value.ts'
import { type TableRelation, joinCondition } from './relations.ts'
import { type RowWay, waysTo } from './ways.ts'
import { splitIdentifier } from './words.ts'

/** Where a person's company name is: in a companies table, reached by a key or through a link table. Pure. */
export function findWorkplace(
  schema: ClassifiedSchema,
  classified: ClassifiedTable,
): { name: string; joins: string | null; employer: RowWay | null } | null {
  const companies = schema.tables.flatMap((company) => {
    // `full_name` may have a number before it.
    const isPlain = ({ path, words }: CandidateField): boolean => path.length === 0 && words.join() === 'name'
    const name =
      company.fields.find(isPlain) ?? company.company.get('name') ?? company.person.get('company_name')
    const { kinds, mirrored, possible, isTenants } = company
    const isCompany = [...kinds, ...mirrored, ...(isTenants ? [] : possible)].includes('company')
    return isCompany && name ? [{ company, name }] : []
  })
  const direct = companies
    .flatMap((one) =>
      waysTo(schema, classified, one.company).flatMap((way) =>
        way.by === 'own key' ? [{ ...one, way, points: scoreWorkRelation(way.relation) }] : [],
      ),
    )
    .filter((one) => one.points > 0)
    .sort((a, b) => b.points - a.points)
  const [best] = direct
  if (best) {
    const { company, way, name } = best
    const isShared = company.partyType !== null && company.kinds.length > 1
    const conditions = [
      joinCondition(way.relation, 't', 'a'),
      ...(isShared && company.partyType !== null ? [company.partyType.company('a')] : []),
      ...exclusionConditions(company, 'a', 'company', 'gone'),
    ]
    return {
      name: fieldSql(name, 'a'),
      joins: `left join ${company.sqlName} a on ${conditions.join(' and ')}`,
      employer: isShared ? null : way,
    }
  }
  for (const { company, name } of companies) {
    const way = linkedCompany(schema, classified, company)
    const isThere = exclusionConditions(company, 'e', 'company', 'gone')
    if (way) return { name: subselect(way, name, isThere), joins: null, employer: way }
  }
  return null
}

/** How strongly a key column points to the employer: by how many rows have one. */
function scoreWorkRelation({ from, to, columns }: TableRelation): number {
  // A row of the same table may be the employer, and is not the one that this was merged into.
  if (from === to && columns.some((column) => sayingOf(splitIdentifier(column)) !== null)) return 0
  const filled = from.fields.find(({ name, path }) => name === columns[0] && path.length === 0)?.values.length
  return from.sampled === 0 ? 1 : (filled ?? 0) / from.sampled
}
