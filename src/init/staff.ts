import { hasWord, headNoun, singularize, splitIdentifier, toWordSet } from './words.ts'
import type { ForeignKey, TableOverview } from './introspect.ts'

const STAFF_NOUNS = toWordSet('owner employee employees staff worker colleague agent operator salesperson')
/** Whose members use the software. */
const TEAM_WORDS = toWordSet('workspace team tenant organization account project company')
/** Rows of these tables own other rows as customers do, and with a password they sign in to a portal. */
const PARTY_NOUNS = toWordSet(
  'person contact lead prospect customer client company account organization partner visitor attendee participant registrant',
)
const LOGIN_WORDS = toWordSet('password passwd pwd passhash crypted')
/** What a column is called that names who works on a row. */
const OWNER_WORDS = toWordSet('owner assigned assignee author salesperson responsible agent rep sales user')

/** The last two words of a table's name. */
const lastWords = (table: string): readonly [string, string] => {
  const [before = '', last = ''] = ['', ...splitIdentifier(table).map(singularize)].slice(-2)
  return [before, last]
}

/** Whether a table's name says that its rows are the users' own staff. */
export function isStaffName(table: string): boolean {
  const [before, last] = lastWords(table)
  return STAFF_NOUNS.has(headNoun(table)) || (last === 'member' && TEAM_WORDS.has(before))
}

/** Whether a table puts people of others on a list: `CampaignMember`, `list_members`. */
export function isMemberList(table: string): boolean {
  const [before, last] = lastWords(table)
  return /^(?:member|membership|recipient|attendee)$/.test(last) && LIST_NOUNS.has(before)
}
const LIST_NOUNS = toWordSet('campaign list group segment audience mailing event')

/**
 * The tables of the users' own staff: by name, by columns used to sign in, or because other tables name them as owner,
 * assignee or author. Pure.
 */
export function findStaffTables(
  overviews: readonly TableOverview[],
  references: readonly Pick<ForeignKey, 'from' | 'to' | 'columns'>[],
): ReadonlySet<string> {
  const isStaff = ({ name, columns, sqlName }: TableOverview): boolean => {
    // A table of two keys links others: `roles_users`.
    const isUsers = headNoun(name) === 'user' && columns.length > 2
    if (isStaffName(name)) return true
    if (isUsers || PARTY_NOUNS.has(headNoun(name))) return isUsers
    const owning = references.filter(
      ({ from, to, columns: keys }) =>
        to === sqlName && from !== to && keys.some((key) => hasWord(splitIdentifier(key), OWNER_WORDS)),
    )
    return (
      columns.some((column) => hasWord(splitIdentifier(column), LOGIN_WORDS)) ||
      new Set(owning.map(({ from }) => from)).size >= 2
    )
  }
  return new Set(overviews.filter(isStaff).map(({ sqlName }) => sqlName))
}
