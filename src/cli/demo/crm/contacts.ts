import { chance, identifier, type Chance } from '../../../sandbox/chance.ts'
import { firstNames, lastNames } from '../../../sandbox/words.ts'
import type { Company } from './accounts.ts'
import { draw, type Shares } from './shares.ts'
import { fillers, leadSources, notes, typedTitles } from './words.ts'
import {
  spaced,
  writeEmail,
  writeInvalidEmail,
  writeNoProfile,
  writeNothing,
  writePhone,
  writeProfile,
} from './writing.ts'

export const SENIORITIES = ['Executive', 'VP', 'Director', 'Manager', 'Senior', 'Entry'] as const

/** A row of crm.contacts, as it is before anything is enriched. */
export interface Contact {
  readonly id: number
  readonly account_id: number | null
  readonly first_name: string | null
  readonly last_name: string | null
  readonly email: string | null
  readonly linkedin: string | null
  readonly title: string | null
  readonly phone: string | null
  readonly seniority: (typeof SENIORITIES)[number] | null
  readonly attributes: Readonly<Record<string, unknown>>
  readonly lead_score: number
  readonly notes: string | null
  readonly deleted: boolean
}

interface Person {
  readonly first: string
  readonly last: string
  readonly email: string
  readonly slug: string
  /** The number of the account, from 0. */
  readonly account: number
}

/** What the CRM has of a person to find them by. */
type Known = Pick<Contact, 'account_id' | 'first_name' | 'last_name' | 'email' | 'linkedin'>

/** The contacts of the CRM. Some people are in it several times, each time written in another way. */
export function makeContacts(seed: number, count: number, companies: readonly Company[]): Contact[] {
  const people: Person[] = []
  return Array.from({ length: count }, (_, n): Contact => {
    const luck = chance(seed, `contact ${n}`)
    const again = n > 50 && luck.below(0.09) ? people[luck.between(0, n - 1)] : undefined
    const person = again ?? makePerson(seed, n, luck, companies)
    people.push(person)
    return { id: n + 1, ...draw(luck, KNOWN)(luck, person), ...typed(luck) }
  })
}

function makePerson(seed: number, n: number, luck: Chance, companies: readonly Company[]): Person {
  const [first, last] = [luck.pick(firstNames), luck.pick(lastNames)]
  // A few accounts have many contacts, most have a few.
  const account = Math.floor(luck.next() ** 1.6 * companies.length)
  const host = companies[account]?.host ?? 'company.example'
  const [f, l] = [plain(first), plain(last)]
  const suffix = identifier(seed, `person ${n}`).slice(0, 6)
  const local = draw(luck, [
    [70, `${f}.${l}${suffix.slice(0, 2)}`],
    [15, `${f.charAt(0)}${l}.${suffix.slice(0, 3)}`],
    [10, `${f}-${l}-${suffix.slice(0, 2)}`],
    [5, `${f}.${l}+crm${suffix.slice(0, 2)}`],
  ])
  return { first, last, email: `${local}@${host}`, slug: `${f}-${l}-${suffix}`, account }
}

/** In letters that an address can hold. */
const plain = (name: string): string =>
  name
    .normalize('NFD')
    .replaceAll('ø', 'o')
    .replaceAll('Ø', 'O')
    .replaceAll('ı', 'i')
    .replaceAll(/[^A-Za-z]/g, '')
    .toLowerCase()

const named = (luck: Chance, { first, last, account }: Person): Known => ({
  account_id: account + 1,
  first_name: spaced(luck, first),
  last_name: last,
  email: writeNothing(luck),
  linkedin: writeNothing(luck),
})

const unnamed = (luck: Chance, person: Person): Known => ({
  ...named(luck, person),
  first_name: writeNothing(luck),
  last_name: writeNothing(luck),
})

function byProfile(luck: Chance, person: Person): Known {
  return { ...named(luck, person), linkedin: writeProfile(luck, person.slug) }
}

const KNOWN: Shares<(luck: Chance, person: Person) => Known> = [
  [71, (luck, person) => ({ ...named(luck, person), email: writeEmail(luck, person.email) })],
  [
    14,
    (luck, person) => ({ ...unnamed(luck, person), account_id: null, email: writeEmail(luck, person.email) }),
  ],
  // An address that is none, and a profile or a name to fall back on.
  [2, (luck, person) => ({ ...byProfile(luck, person), email: spoilt(luck, person) })],
  [1.5, (luck, person) => ({ ...named(luck, person), email: spoilt(luck, person) })],
  [4, byProfile],
  [3, named],
  [1, (luck, person) => ({ ...named(luck, person), linkedin: writeNoProfile(luck, person.slug) })],
  // Nobody can be found by these.
  [1.2, (luck, person) => ({ ...unnamed(luck, person), email: spoilt(luck, person) })],
  [0.8, (luck, person) => ({ ...named(luck, person), account_id: null })],
  [1.5, unnamed],
]

const spoilt = (luck: Chance, person: Person): string =>
  writeInvalidEmail(luck, person.email, `${person.first} ${person.last}`)

function typed(luck: Chance): Omit<Contact, 'id' | keyof Known> {
  const isComplete = luck.below(0.02)
  return {
    title: isComplete || luck.below(0.22) ? luck.pick([...typedTitles, ...fillers]) : writeNothing(luck),
    phone:
      isComplete || luck.below(0.16)
        ? luck.below(0.1)
          ? luck.pick(fillers)
          : writePhone(luck)
        : writeNothing(luck),
    seniority: isComplete || luck.below(0.08) ? luck.pick(SENIORITIES) : null,
    attributes: {
      ...(luck.below(0.4) && { source: luck.pick(leadSources) }),
      ...department(luck, isComplete),
    },
    lead_score: luck.below(0.3) ? luck.between(1, 100) : 0,
    notes: luck.below(0.06) ? luck.pick(notes) : null,
    deleted: luck.below(0.03),
  }
}

const department = (luck: Chance, isComplete: boolean): { readonly department?: string | null } =>
  isComplete
    ? { department: 'Sales' }
    : draw<{ readonly department?: string | null }>(luck, [
        [88, {}],
        [7, { department: luck.pick(['Sales', 'IT', 'marketing', 'N/A']) }],
        [3, { department: '' }],
        [2, { department: null }],
      ])
