import { ConfigProblems } from '../config/problems.ts'
import { parseTableName } from '../sources/quote.ts'
import { didYouMean } from '../util/text.ts'
import { scoreTable } from './kinds.ts'
import { singularize, splitIdentifier, toOwnWords, toWordSet } from './words.ts'
import type { ForeignKey, TableOverview } from './introspect.ts'
import { KEY_WORDS, nameRank } from './relations.ts'
import { rolesOf, scoreName } from './roles.ts'

export interface TableName {
  readonly schema: string
  readonly name: string
}

/**
 * Which tables the user named; null if none.
 * @throws ConfigProblems if one does not exist
 */
export function selectTables(
  all: readonly TableOverview[],
  words: readonly string[],
): ((table: TableName) => boolean) | null {
  const named = words.map((word) => {
    const parsed = parseTableName(word)
    // A shell takes the quotes away from "Contact": the name as it is spelled counts, too.
    const isNamed = ({ schema, name }: TableName): boolean =>
      (parsed.table === name && (parsed.schema ?? schema) === schema) ||
      [name, `${schema}.${name}`].includes(word)
    if (all.some(isNamed)) return isNamed
    const names = all.map(({ schema, name }) => (word.includes('.') ? `${schema}.${name}` : name))
    throw new ConfigProblems('the command', [
      {
        place: word,
        found: 'no such table in this database',
        expected: 'an existing table, such as crm.contacts',
        todo: didYouMean(word, names) ?? 'Omit the name to examine all tables.',
      },
    ])
  })
  return named.length === 0 ? null : (table) => named.some((isNamed) => isNamed(table))
}

/** Tables that are read closely: all of most databases. Some have thousands, with people and companies in a few. */
const MAX_TABLES = 200

/** Of many tables, those that may hold people or companies; the others must have to do with one of them. */
const MAX_PARTIES = 60

/**
 * The tables to read closely, those most like people and companies first. Reads only names and foreign keys, so a
 * database of thousands of tables is read once. Pure.
 */
export function shortlistTables(
  all: readonly TableOverview[],
  references: readonly ForeignKey[],
): TableOverview[] {
  const scored = mostFirst(all, partyPoints)
  if (all.length <= MAX_TABLES) return scored
  const main = scored.filter(isLikeParty).slice(0, MAX_PARTIES)
  const rest = all.filter((one) => !main.includes(one))
  return [...main, ...mostFirst(rest, (one) => countTies(one, main, references))].slice(0, MAX_TABLES)
}

const mostFirst = (
  tables: readonly TableOverview[],
  count: (table: TableOverview) => number,
): TableOverview[] =>
  tables
    .map((table) => ({ table, points: count(table) }))
    .sort((a, b) => b.points - a.points)
    .map(({ table }) => table)

/** Whether names alone say that a table may hold people or companies: that of a waiting list does not, its columns do. */
export const isLikeParty = (table: TableOverview): boolean => partyPoints(table) >= MIN_POINTS
const MIN_POINTS = 3

/** How much the name of a table and those of its columns are like people or companies. */
function partyPoints({ name, columns }: TableOverview): number {
  const own = toOwnWords(name)
  const roles = [...new Set([...rolesOf('person'), ...rolesOf('company')])].filter((role) =>
    columns.some((column) => scoreName(role, splitIdentifier(column), own) >= 60),
  )
  return Math.max(scoreTable('person', name, roles), scoreTable('company', name, roles))
}

/** What a table has to do with others: keys, names of its columns and theirs, and what its own name says. */
function countTies(
  table: TableOverview,
  main: readonly TableOverview[],
  references: readonly ForeignKey[],
): number {
  const [own, names] = [table.sqlName, new Set(main.map(({ sqlName }) => sqlName))]
  const declared = references.filter(
    ({ from, to }) => (from === own && names.has(to)) || (to === own && names.has(from)),
  )
  const named = main.filter((one) => mentions(table, one).length > 0 || mentions(one, table).length > 0)
  const isPart = main.some((one) => table.name.startsWith(`${one.name}_`))
  const isTelling = splitIdentifier(table.name).some((word) => TELLING_WORDS.has(singularize(word)))
  return declared.length + named.length + Number(isPart) + 3 * Number(isTelling)
}

/** The columns of a table that by their names are keys of another one. */
export const mentions = ({ columns }: TableOverview, other: TableOverview): string[] =>
  columns.filter((column) => {
    const words = splitIdentifier(column)
    const said = words.filter((word) => !KEY_WORDS.has(word))
    return said.length < words.length && nameRank(said, other.name) > 0
  })

/** Tables of addresses, of those who must not be contacted, of users, and of what other rows are called. */
const TELLING_WORDS = toWordSet(
  `email mail address domain website url location information field mechanism detail channel point communication
   consent subscription preference newsletter permission gdpr privacy blacklist blocklist suppression unsubscribed objection no merged
   user staff employee owner member content`,
)
