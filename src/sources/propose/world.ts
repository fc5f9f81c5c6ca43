import type { SourceKind } from '../../domain/mapping.ts'
import { ENOUGH, hintOf, holdsLogins, isStaff, pastWord, scoreOf } from './judge.ts'
import { COMPANY_ROLES, PERSON_ROLES, pickFields, type Picks } from './pick.ts'
import type { Relation } from './relations.ts'
import type { Role } from './role.ts'
import { sidesOf, type Sides } from './sides.ts'
import type { Surveyed } from './survey.ts'

/** A table with what its columns seem to be, and whether its rows are people or companies. */
export interface Judged extends Surveyed {
  /** Columns that hold the keys of other rows. */
  readonly references: ReadonlySet<string>
  readonly person: Picks
  readonly company: Picks
  /** Both where it holds both; none where it holds neither. */
  readonly kinds: readonly SourceKind[]
  /** Conditions that tell them apart, where the table has a column for it. */
  readonly sides: Sides | null
  /** Why it is not proposed although it looks like it; null where it does not look like it, or is proposed. */
  readonly objection: string | null
  /** Whether it looks only a little like it: worth a word where nothing else was found. */
  readonly isDoubtful: boolean
}

export interface World {
  readonly tables: readonly Judged[]
  readonly relations: readonly Relation[]
}

/**
 * Says of each table what it is. Pure.
 * @param isNamed whether somebody asked for the table, so that it is one of people or of companies however little it looks it
 */
export function judge(
  tables: readonly Surveyed[],
  relations: readonly Relation[],
  isNamed: (table: Surveyed) => boolean,
): World {
  return { tables: tables.map((one) => judgeTable(one, relations, isNamed(one))), relations }
}

function judgeTable(surveyed: Surveyed, relations: readonly Relation[], isNamed: boolean): Judged {
  const { table } = surveyed
  const references = new Set(
    relations.filter((one) => one.from.table.sql === table.sql).flatMap((one) => one.columns),
  )
  const judged = {
    ...surveyed,
    references,
    person: pickFields(surveyed, PERSON_ROLES, references),
    company: pickFields(surveyed, COMPANY_ROLES, references),
    sides: sidesOf(surveyed),
  }
  const kinds = kindsOf(judged, isNamed)
  const isDoubtful = kinds.length === 0 && isAlmostLike(judged)
  const objection = kinds.length > 0 || isDoubtful ? objectionTo(judged, isNamed) : null
  return {
    ...judged,
    isDoubtful,
    kinds: objection === null ? kinds : [],
    objection: objection ?? (isDoubtful ? DOUBT : null),
  }
}

const DOUBT = 'neither its name nor its columns say for sure that its rows are people or companies'

const isAlmostLike = ({ table, person, company }: Pick<Judged, 'table' | 'person' | 'company'>): boolean =>
  Math.max(scoreOf('person', table.name, person), scoreOf('company', table.name, company)) >= ENOUGH - 1

type Unjudged = Omit<Judged, 'kinds' | 'objection' | 'isDoubtful'>

function kindsOf({ table, person, company, sides }: Unjudged, isNamed: boolean): SourceKind[] {
  const picks = { person, company }
  const hints = { person: hintOf('person', table.name), company: hintOf('company', table.name) }
  const scores = {
    person: scoreOf('person', table.name, person),
    company: scoreOf('company', table.name, company),
  }
  const isLike = (kind: SourceKind): boolean => {
    if (hints[kind] === 'none') return scores[kind] > ENOUGH + 1 && hasIdentity(kind, picks[kind])
    if (!OWN[kind].some((role) => picks[kind].has(role))) return false
    // With a sure name little more is wanted: addresses, for instance, may be in another table.
    return hints[kind] === 'strong' || scores[kind] >= ENOUGH
  }
  const like = (['person', 'company'] as const).filter(isLike)
  const likelier: SourceKind[] = scores.company > scores.person ? ['company'] : ['person']
  if (like.length === 0 && isNamed) return likelier
  if (like.length < 2 || sides !== null) return like
  if (hints.person === 'strong') return hasOwnFacts(company) ? like : ['person']
  if (hints.company === 'strong') return ['company']
  return likelier
}

/** A row without any of these is a link between others. */
const OWN: Readonly<Record<SourceKind, readonly Role[]>> = {
  person: ['email', 'profile', 'first_name', 'last_name', 'name'],
  company: ['domain', 'name'],
}

/** Something that only one of that kind has: names of a person, or a site with what a company does or how large it is. */
const hasIdentity = (kind: SourceKind, picks: Picks): boolean =>
  kind === 'person'
    ? picks.has('last_name') && (picks.has('email') || picks.has('profile'))
    : picks.has('domain') && (picks.has('industry') || picks.has('employees'))

/** A person's row may also hold what is to be known about the company: a lead of both. */
export const hasOwnFacts = (company: Picks): boolean =>
  company.has('domain') && (company.has('industry') || company.has('employees') || company.has('revenue'))

/** @param isNamed whether somebody asked for the table: then they know what it holds */
function objectionTo({ table }: Pick<Surveyed, 'table'>, isNamed: boolean): string | null {
  if (table.kind !== 'table')
    return `a ${table.kind}: only in a table can rows be locked while they are written`
  if (table.uniqueKeys.length === 0)
    return 'it has no primary key and no unique index: nothing tells its rows apart'
  if (!table.columns.some((column) => column.canUpdate)) return 'this role may not update it'
  if (isNamed) return null
  const past = pastWord(table.name)
  if (past !== null) return `its name says that it keeps something else: '${past}'`
  if (isStaff(table.name)) return 'its name says that it holds one’s own people'
  return holdsLogins(table.columns.map((column) => column.name))
    ? 'it holds passwords: the users of an application'
    : null
}

/** Relations from one table to another. */
export const between = (world: World, from: Surveyed, to: Surveyed): Relation[] =>
  world.relations.filter((one) => one.from.table.sql === from.table.sql && one.to.table.sql === to.table.sql)
