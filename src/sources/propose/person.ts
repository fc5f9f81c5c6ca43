import type { InputName } from '../../domain/mapping.ts'
import { baseOf, type Draft } from './draft.ts'
import { nameInSql, readField, type Field } from './field.ts'
import { joined, type Relation } from './relations.ts'
import { aliveConditions } from './alive.ts'
import { linkedCompany, sideValue } from './side-value.ts'
import { between, type Judged, type World } from './world.ts'
import { wordsOf } from './words.ts'

/** The people of a table: what may identify them, and what is to be filled. Pure. */
export function draftPeople(world: World, judged: Judged, name: string): Draft {
  const { person: picks, sides } = judged
  const work = workplace(world, judged)
  const email = picks.get('email')
  const mail = email === undefined ? sideValue(world, judged, 'email') : readField(email, 't')
  const profile = picks.get('profile')
  const sideProfile = profile === undefined ? sideValue(world, judged, 'profile') : null
  const fullName = nameOf(judged)
  const company = picks.get('company_name')
  const inputs: Partial<Record<InputName, string>> = {
    ...(mail !== null && { email: mail }),
    ...(sideProfile !== null && { linkedin_url: sideProfile }),
    ...(fullName !== null && { name: fullName }),
    ...(work !== null && { company: work.name }),
  }
  return {
    base: baseOf(judged, 'person', {
      name,
      joins: work?.joins ?? null,
      where: judged.kinds.length > 1 && sides !== null ? [sides.person('t')] : [],
    }),
    judged,
    picks,
    inputs,
    spare: { ...(profile && { profile }), ...(company && { company }) },
  }
}

/** First and last name before a name of one column, because that one may be anything: a nick, or the other way round. */
function nameOf({ person: picks }: Judged): string | null {
  const [first, last] = [picks.get('first_name'), picks.get('last_name')]
  if (first && last) return `concat_ws(' ', ${readField(first, 't')}, ${readField(last, 't')})`
  const whole = picks.get('name')
  return whole === undefined ? null : readField(whole, 't')
}

/** Where the name of a person's company is: in a table of companies, reached by a key or by a table of links. */
function workplace(world: World, judged: Judged): { name: string; joins: string | null } | null {
  const companies = world.tables.filter(
    (one) =>
      one.kinds.includes('company') && one.company.has('name') && one.company.get('name') !== undefined,
  )
  const direct = companies
    .flatMap((company) => between(world, judged, company).map((relation) => ({ company, relation })))
    .map((one) => ({ ...one, points: workPoints(one.relation) }))
    .filter((one) => one.points > 0)
    .sort((a, b) => b.points - a.points)
  const [best] = direct
  if (best) {
    const { company, relation } = best
    const isSame = company.table.sql === judged.table.sql
    const conditions = [
      joined(relation, 't', 'a'),
      ...(isSame && judged.sides !== null ? [judged.sides.company('a')] : []),
      ...aliveConditions(company, 'a'),
    ]
    return {
      name: readField(nameField(company), 'a'),
      joins: `left join ${company.inSql} a on ${conditions.join(' and ')}`,
    }
  }
  for (const company of companies) {
    const linked = linkedCompany(world, judged, company, nameField(company))
    if (linked !== null) return { name: linked, joins: null }
  }
  return null
}

function nameField(company: Judged): Field {
  const field = company.company.get('name')
  if (field === undefined) throw new Error(`no name was picked for ${company.table.sql}`)
  return field
}

const WORK = new Set('company organization org account employer parent business firm current'.split(' '))
const ELSE = new Set(
  'previous former old last invoice billing referrer reseller owner tenant workspace'.split(' '),
)

/** How surely a key leads to where a person works. */
function workPoints({ columns }: Relation): number {
  const words = columns.flatMap((column) => wordsOf(nameInSql(column)))
  if (words.some((word) => ELSE.has(word)) && columns.length === 1) return 0
  return 1 + words.filter((word) => WORK.has(word)).length
}
