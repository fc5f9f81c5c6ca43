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
import { TYPED, placeholderValues, typedTitles } from './words.ts'

export const SENIORITIES = ['Executive', 'VP', 'Director', 'Manager', 'Senior', 'Entry'] as const

interface CrmPerson {
  readonly first: string
  readonly last: string
  readonly email: string
  readonly slug: string
  /** Index of the account, from 0. */
  readonly account: number
}

/** The identifiers of a person in the CRM. */
interface ContactIdentity {
  readonly account_id: number | null
  readonly first_name: string | null
  readonly last_name: string | null
  readonly email: string | null
  readonly linkedin: string | null
}

/** The contacts of the CRM. Some people occur several times, each time spelled differently. */
export function createContacts(seed: number, count: number, companies: readonly CrmCompany[]) {
  const people: CrmPerson[] = []
  return Array.from({ length: count }, (_, n) => {
    const rng = createRng(seed, `contact ${n}`)
    const again = n > 50 && rng.below(0.09) ? people[rng.between(0, n - 1)] : undefined
    const person = again ?? createPerson(seed, n, rng, companies)
    people.push(person)
    return { id: n + 1, ...drawWeighted(rng, CONTACT_IDENTITIES)(rng, person), ...typedContactFields(rng) }
  })
}

function createPerson(seed: number, n: number, rng: Rng, companies: readonly CrmCompany[]): CrmPerson {
  const [first, last] = [rng.pick(firstNames), rng.pick(lastNames)]
  // A few accounts have many contacts, most have a few.
  const account = Math.floor(rng.next() ** 1.6 * companies.length)
  const host = companies[account]?.host ?? 'company.example'
  const [f, l] = [toAsciiLetters(first), toAsciiLetters(last)]
  const suffix = seededIdentifier(seed, `person ${n}`).slice(0, 6)
  const local = drawWeighted(rng, [
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

const withName = (rng: Rng, { first, last, account }: CrmPerson): ContactIdentity => ({
  account_id: account + 1,
  first_name: withStraySpaces(rng, first),
  last_name: last,
  email: writeBlank(rng),
  linkedin: writeBlank(rng),
})

const withoutName = (rng: Rng, person: CrmPerson): ContactIdentity => ({
  ...withName(rng, person),
  first_name: writeBlank(rng),
  last_name: writeBlank(rng),
})

function withProfile(rng: Rng, person: CrmPerson): ContactIdentity {
  return { ...withName(rng, person), linkedin: writeProfile(rng, person.slug) }
}

const CONTACT_IDENTITIES: Weighted<(rng: Rng, person: CrmPerson) => ContactIdentity> = [
  [71, (rng, person) => ({ ...withName(rng, person), email: writeEmail(rng, person.email) })],
  [
    14,
    (rng, person) => ({
      ...withoutName(rng, person),
      account_id: null,
      email: writeEmail(rng, person.email),
    }),
  ],
  // An invalid address, with a profile or a name as fallback.
  [2, (rng, person) => ({ ...withProfile(rng, person), email: invalidEmail(rng, person) })],
  [1.5, (rng, person) => ({ ...withName(rng, person), email: invalidEmail(rng, person) })],
  [4, withProfile],
  [3, withName],
  [1, (rng, person) => ({ ...withName(rng, person), linkedin: writeInvalidProfile(rng, person.slug) })],
  // Not usable for a lookup.
  [1.2, (rng, person) => ({ ...withoutName(rng, person), email: invalidEmail(rng, person) })],
  [0.8, (rng, person) => ({ ...withName(rng, person), account_id: null })],
  [1.5, withoutName],
]

const invalidEmail = (rng: Rng, person: CrmPerson): string =>
  writeInvalidEmail(rng, person.email, `${person.first} ${person.last}`)

function typedContactFields(rng: Rng) {
  const isComplete = rng.below(0.02)
  return {
    title: isComplete || rng.below(0.22) ? rng.pick([...typedTitles, ...placeholderValues]) : writeBlank(rng),
    phone:
      isComplete || rng.below(0.16)
        ? rng.below(0.1)
          ? rng.pick(placeholderValues)
          : writePhone(rng)
        : writeBlank(rng),
    seniority: isComplete || rng.below(0.08) ? rng.pick(SENIORITIES) : null,
    attributes: {
      ...(rng.below(0.4) && { source: rng.pick(TYPED.leadSource) }),
      ...department(rng, isComplete),
    },
    lead_score: rng.below(0.3) ? rng.between(1, 100) : 0,
    notes: rng.below(0.06) ? rng.pick(TYPED.note) : null,
    deleted: rng.below(0.03),
  }
}

const department = (rng: Rng, isComplete: boolean): { readonly department?: string | null } =>
  isComplete
    ? { department: 'Sales' }
    : drawWeighted<{ readonly department?: string | null }>(rng, [
        [88, {}],
        [7, { department: rng.pick(['Sales', 'IT', 'marketing', 'N/A']) }],
        [3, { department: '' }],
        [2, { department: null }],
      ])
