import { pointsFor, type Role } from './role.ts'
import { hintOf } from './judge.ts'
import { COMPANY_ROLES, PERSON_ROLES } from './pick.ts'
import type { Overview } from './survey.ts'
import { singular, wordsOf } from './words.ts'

/** Tables read closely; a database has thousands, and people and companies are in a few. */
const MOST = 60

/** Names of these in a table's columns are worth a closer look. */
const TELLING: ReadonlySet<Role> = new Set([
  'email',
  'profile',
  'first_name',
  'last_name',
  'company_name',
  'title',
  'seniority',
  'department',
  'domain',
  'industry',
  'employees',
  'revenue',
  'city',
])

const ROLES = [...new Set([...PERSON_ROLES, ...COMPANY_ROLES])].filter((role) => TELLING.has(role))

/**
 * The tables that may hold people, companies, their addresses or what links them, the likeliest first; by their names
 * and their columns' names alone, so that a database of thousands of tables is read once. Pure.
 */
export function shortlist(all: readonly Overview[]): Overview[] {
  const scored = all.map((one) => ({ one, points: interestOf(one) }))
  const likely = scored.filter(({ points }) => points >= 3).sort((a, b) => b.points - a.points)
  const main = likely.slice(0, MOST).map(({ one }) => one)
  const things = new Set(main.map((one) => singular(wordsOf(one.name).at(-1) ?? '')))
  const links = all.filter((one) => !main.includes(one) && linksTo(one, things)).slice(0, MOST)
  return [...main, ...links]
}

/** What a table's name and its columns' names are worth. */
export function interestOf({ name, columns }: Pick<Overview, 'name' | 'columns'>): number {
  const own = new Set(wordsOf(name).flatMap((word) => [word, singular(word)]))
  const roles = ROLES.filter((role) => columns.some((column) => pointsFor(role, wordsOf(column), own) >= 60))
  const hints = (['person', 'company'] as const).map(
    (kind) => ({ strong: 3, weak: 2, none: 0 })[hintOf(kind, name)],
  )
  const holdsAddresses = wordsOf(name).some((word) => SIDE.has(singular(word))) ? 3 : 0
  return Math.max(...hints) + roles.length + holdsAddresses
}

const SIDE = new Set('email mail address domain website url location'.split(' '))

/** Two keys of other tables, one of them of a thing that was found: `account_contacts`, `entity_email_address`. */
function linksTo({ columns }: Overview, things: ReadonlySet<string>): boolean {
  const keys = columns.map(wordsOf).filter((words) => words.length > 1 && words.at(-1) === 'id')
  return keys.length >= 2 && keys.some((words) => things.has(singular(words.at(-2) ?? '')))
}
