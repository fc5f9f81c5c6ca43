import type { SourceKind } from '../../domain/mapping.ts'
import type { Picks } from './pick.ts'
import type { Role } from './role.ts'
import { headOf, singular, wordsOf } from './words.ts'

/** What a table's name says that its rows are: surely, or perhaps. */
const SURELY: Readonly<Record<SourceKind, ReadonlySet<string>>> = {
  person: new Set('person contact lead prospect individual candidate member attendee people'.split(' ')),
  company: new Set('company account organization org firm business employer'.split(' ')),
}
const PERHAPS: Readonly<Record<SourceKind, ReadonlySet<string>>> = {
  person: new Set(
    'partner customer client party user subscriber guest participant profile record entity'.split(' '),
  ),
  company: new Set('partner customer client party vendor supplier brand merchant record entity'.split(' ')),
}

/** How much each role says for a kind. */
const SAYS: Readonly<Record<SourceKind, Readonly<Partial<Record<Role, number>>>>> = {
  person: {
    first_name: 1,
    last_name: 2,
    name: 1,
    email: 1,
    profile: 2,
    title: 1,
    seniority: 2,
    department: 1,
    company_name: 1,
  },
  company: {
    domain: 2,
    name: 1,
    industry: 2,
    sub_industry: 1,
    employees: 2,
    revenue: 1,
    founded: 1,
    technologies: 1,
    legal_name: 1,
    twitter: 1,
  },
}

/** From this on a table is taken for one of this kind. */
export const ENOUGH = 4

export type Hint = 'strong' | 'weak' | 'none'

export function hintOf(kind: SourceKind, table: string): Hint {
  const head = headOf(table)
  if (SURELY[kind].has(head)) return 'strong'
  return PERHAPS[kind].has(head) ? 'weak' : 'none'
}

/** How much name and columns of a table say that its rows are people, or companies. Pure. */
export function scoreOf(kind: SourceKind, table: string, picks: Picks): number {
  const points = { strong: 3, weak: 1, none: 0 }[hintOf(kind, table)]
  return [...picks.keys()].reduce((sum, role) => sum + (SAYS[kind][role] ?? 0), points)
}

const PAST = new Set(
  `log logs audit audits history histories archive archived backup backups bak tmp temp staging stage old copy version
   versions event events queue queues migration migrations session sessions import imports export exports test`.split(
    /\s+/,
  ),
)

/** The word in a table's name that says that it keeps something else than what there is now; null where there is none. */
export const pastWord = (table: string): string | null =>
  wordsOf(table).find((word) => PAST.has(word)) ?? null

/** Those who work here are known already. */
export const isStaff = (table: string): boolean => STAFF.has(headOf(table))

const STAFF = new Set('employee staff worker colleague'.split(' '))

/** Columns by which an application lets people in: such a table is not one of people to be known better. */
export const holdsLogins = (columns: readonly string[]): boolean =>
  columns.some((column) => wordsOf(column).some((word) => LOGIN.has(singular(word))))

const LOGIN = new Set('password passwd pwd passhash'.split(' '))
