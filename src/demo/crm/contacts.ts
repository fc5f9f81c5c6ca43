import { type Rng, createRng, seededIdentifier } from '../../sandbox/rng.ts'
import { firstNames, lastNames } from '../../sandbox/fixtures.ts'
import type { CrmCompany } from './accounts.ts'
import {
  type Weighted,
  drawWeighted,
  withStraySpaces,
  writeBlank,
  writeEmail,
  writeInvalidEmail,
  writeInvalidProfile,
  writePhone,
  writeProfile,
} from './dirty-values.ts'
import { contactNotes, leadSources, placeholderValues, typedTitles } from './words.ts'

export const SENIORITIES = ['Executive', 'VP', 'Director', 'Manager', 'Senior', 'Entry'] as const

/** A row of crm.contacts before enrichment. */
export interface CrmContact {
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

interface CrmPerson {
  readonly first: string
  readonly last: string
  readonly email: string
  readonly slug: string
  /** Index of the account, from 0. */
  readonly account: number
}

/** The identifiers of a person in the CRM. */
type ContactIdentity = Pick<CrmContact, 'account_id' | 'first_name' | 'last_name' | 'email' | 'linkedin'>

/** The contacts of the CRM. Some people occur several times, each time spelled differently. */
export function createContacts(seed: number, count: number, companies: readonly CrmCompany[]): CrmContact[] {
  const people: CrmPerson[] = []
  return Array.from({ length: count }, (_, n): CrmContact => {
    const luck = createRng(seed, `contact ${n}`)
    const again = n > 50 && luck.below(0.09) ? people[luck.between(0, n - 1)] : undefined
    const person = again ?? createPerson(seed, n, luck, companies)
    people.push(person)
    return { id: n + 1, ...drawWeighted(luck, CONTACT_IDENTITIES)(luck, person), ...typedContactFields(luck) }
  })
}

function createPerson(seed: number, n: number, luck: Rng, companies: readonly CrmCompany[]): CrmPerson {
  const [first, last] = [luck.pick(firstNames), luck.pick(lastNames)]
  // A few accounts have many contacts, most have a few.
  const account = Math.floor(luck.next() ** 1.6 * companies.length)
  const host = companies[account]?.host ?? 'company.example'
  const [f, l] = [toAsciiLetters(first), toAsciiLetters(last)]
  const suffix = seededIdentifier(seed, `person ${n}`).slice(0, 6)
  const local = drawWeighted(luck, [
    [70, `${f}.${l}${suffix.slice(0, 2)}`],
    [15, `${f.charAt(0)}${l}.${suffix.slice(0, 3)}`],
    [10, `${f}-${l}-${suffix.slice(0, 2)}`],
    [5, `${f}.${l}+crm${suffix.slice(0, 2)}`],
  ])
  return { first, last, email: `${local}@${host}`, slug: `${f}-${l}-${suffix}`, account }
}

/** Letters that an email address may contain. */
const toAsciiLetters = (name: string): string =>
  name
    .normalize('NFD')
    .replaceAll('ø', 'o')
    .replaceAll('Ø', 'O')
    .replaceAll('ı', 'i')
    .replaceAll(/[^A-Za-z]/g, '')
    .toLowerCase()

const withName = (luck: Rng, { first, last, account }: CrmPerson): ContactIdentity => ({
  account_id: account + 1,
  first_name: withStraySpaces(luck, first),
  last_name: last,
  email: writeBlank(luck),
  linkedin: writeBlank(luck),
})

const withoutName = (luck: Rng, person: CrmPerson): ContactIdentity => ({
  ...withName(luck, person),
  first_name: writeBlank(luck),
  last_name: writeBlank(luck),
})

function withProfile(luck: Rng, person: CrmPerson): ContactIdentity {
  return { ...withName(luck, person), linkedin: writeProfile(luck, person.slug) }
}

const CONTACT_IDENTITIES: Weighted<(luck: Rng, person: CrmPerson) => ContactIdentity> = [
  [71, (luck, person) => ({ ...withName(luck, person), email: writeEmail(luck, person.email) })],
  [
    14,
    (luck, person) => ({
      ...withoutName(luck, person),
      account_id: null,
      email: writeEmail(luck, person.email),
    }),
  ],
  // An invalid address, with a profile or a name as fallback.
  [2, (luck, person) => ({ ...withProfile(luck, person), email: invalidEmail(luck, person) })],
  [1.5, (luck, person) => ({ ...withName(luck, person), email: invalidEmail(luck, person) })],
  [4, withProfile],
  [3, withName],
  [1, (luck, person) => ({ ...withName(luck, person), linkedin: writeInvalidProfile(luck, person.slug) })],
  // Not usable for a lookup.
  [1.2, (luck, person) => ({ ...withoutName(luck, person), email: invalidEmail(luck, person) })],
  [0.8, (luck, person) => ({ ...withName(luck, person), account_id: null })],
  [1.5, withoutName],
]

const invalidEmail = (luck: Rng, person: CrmPerson): string =>
  writeInvalidEmail(luck, person.email, `${person.first} ${person.last}`)

function typedContactFields(luck: Rng): Omit<CrmContact, 'id' | keyof ContactIdentity> {
  const isComplete = luck.below(0.02)
  return {
    title:
      isComplete || luck.below(0.22) ? luck.pick([...typedTitles, ...placeholderValues]) : writeBlank(luck),
    phone:
      isComplete || luck.below(0.16)
        ? luck.below(0.1)
          ? luck.pick(placeholderValues)
          : writePhone(luck)
        : writeBlank(luck),
    seniority: isComplete || luck.below(0.08) ? luck.pick(SENIORITIES) : null,
    attributes: {
      ...(luck.below(0.4) && { source: luck.pick(leadSources) }),
      ...department(luck, isComplete),
    },
    lead_score: luck.below(0.3) ? luck.between(1, 100) : 0,
    notes: luck.below(0.06) ? luck.pick(contactNotes) : null,
    deleted: luck.below(0.03),
  }
}

const department = (luck: Rng, isComplete: boolean): { readonly department?: string | null } =>
  isComplete
    ? { department: 'Sales' }
    : drawWeighted<{ readonly department?: string | null }>(luck, [
        [88, {}],
        [7, { department: luck.pick(['Sales', 'IT', 'marketing', 'N/A']) }],
        [3, { department: '' }],
        [2, { department: null }],
      ])
