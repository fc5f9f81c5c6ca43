import { baseOf, type Draft } from './draft.ts'
import { nameInSql } from './field.ts'
import { quoteLiteral } from '../quote.ts'
import { related } from './side-value.ts'
import { headOf } from './words.ts'
import { between, type Judged, type World } from './world.ts'

const ADDRESSES = new Set('address location site office branch'.split(' '))

/**
 * The addresses of companies in a table of their own: filled by what is known of the company, so they cost no further
 * call. Null where the table is no such. Pure.
 * @param companies sources of companies, each with the domain's expression over the table
 */
export function draftAddresses(
  world: World,
  judged: Judged,
  companies: readonly Draft[],
  name: (company: string) => string,
): Draft | null {
  const { company: picks } = judged
  if (judged.kinds.length > 0 || !ADDRESSES.has(headOf(judged.table.name))) return null
  if (!picks.has('city') && !picks.has('country')) return null
  if (judged.table.uniqueKeys.length === 0) return null
  for (const company of companies) {
    const [relation] = between(world, judged, company.judged)
    const domain = company.inputs.domain?.replaceAll(/\bt\./g, 'a.')
    // A sub-select in a sub-select would read `t` of the wrong one.
    if (relation === undefined || domain === undefined || domain.startsWith('(')) continue
    const { type } = relation
    const base = baseOf(judged, 'company', {
      name: name(company.base.name),
      joins: null,
      where: type === null ? [] : [`t.${nameInSql(type.column)} = ${quoteLiteral(type.label)}`],
    })
    return {
      base: {
        ...base,
        notes: [
          `Where the companies of ${company.base.name} are: asked about as they are, so it costs no further call. ` +
            'Check that all of these rows are meant for the seat of the company.',
          ...base.notes,
        ],
      },
      judged,
      picks: new Map([...picks].filter(([role]) => PLACE.has(role))),
      inputs: { domain: related(relation, company.judged, domain) },
      spare: {},
    }
  }
  return null
}

const PLACE: ReadonlySet<string> = new Set(['city', 'state', 'country'])
