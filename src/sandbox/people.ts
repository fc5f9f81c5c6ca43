import { type Rng, createRng, seededIdentifier } from './rng.ts'
import { capitalize, companyIdentity, domainFromName, companyPlace } from './companies.ts'
import type { SandboxOptions } from './options.ts'
import { type FixturePlace, departments, firstNames, lastNames } from './fixtures.ts'

/**
 * One lookup in canonical form. `key` is equal for all spellings of the same lookup, and different for different
 * ones.
 */
export type PersonLookup =
  | { readonly kind: 'email'; readonly key: string }
  | { readonly kind: 'linkedin'; readonly key: string; readonly url: string }
  | { readonly kind: 'name'; readonly key: string; readonly name: string; readonly company: string }

type RecordOptions = Pick<SandboxOptions, 'seed' | 'missingShare'>

const FIRST_UPDATE = Date.UTC(2023, 0, 1)
const UPDATE_SPAN_MS = 1_000 * 24 * 3_600_000

/** 'anna.berg7', 'anna-berg-4711' and 'Anna Berg' contain a name; 'abe42' does not. */
function parseName(text: string): readonly [string, string] | undefined {
  const parts = text
    .split(/[\s._-]+/)
    .map((part) => part.replace(/\d+$/, ''))
    .filter((part) => /^[\p{L}']{2,}$/u.test(part))
    .map(capitalize)
  const last = parts.at(-1)
  return parts[0] === undefined || last === undefined || parts.length < 2 ? undefined : [parts[0], last]
}

function namePart(lookup: PersonLookup): string {
  if (lookup.kind === 'name') return lookup.name
  if (lookup.kind === 'email') return lookup.key.slice(0, lookup.key.lastIndexOf('@')).replace(/\+.*/, '')
  return lookup.key.slice(lookup.key.lastIndexOf('/') + 1)
}

function workDomain(lookup: PersonLookup, draw: Rng): string {
  const madeUp = domainFromName(draw.pick(lastNames) + draw.pick(lastNames))
  if (lookup.kind === 'linkedin') return madeUp
  if (lookup.kind === 'name') return domainFromName(lookup.company)
  return lookup.key.slice(lookup.key.lastIndexOf('@') + 1)
}

/** A job title with its seniority and department. */
function drawPosition(draw: Rng): { title: string; seniority: string; department: string } {
  const { department, field, chief, roles } = draw.pick(departments)
  const rank = draw.next()
  if (rank < 0.06) return { title: chief, seniority: 'c_suite', department }
  if (rank < 0.14) return { title: `VP of ${field}`, seniority: 'vp', department }
  if (rank < 0.26) return { title: `Director of ${field}`, seniority: 'director', department }
  if (rank < 0.42) return { title: `${field} Manager`, seniority: 'manager', department }
  const role = draw.pick(roles)
  if (rank < 0.66) return { title: `Senior ${role}`, seniority: 'senior', department }
  return { title: role, seniority: 'entry', department }
}

/** A phone number in E.164. */
function drawPhone({ dial: [code, first, digits] }: FixturePlace, draw: Rng): string {
  return `+${code}${first}${String(Math.floor(draw.next() * 10 ** digits)).padStart(digits, '0')}`
}

/** From 0 to 1 in hundredths, about a quarter of them below 0.7. */
function drawConfidence(draw: Rng): number {
  const value = draw.below(0.25) ? draw.next() * 0.7 : 0.7 + draw.next() * 0.3
  return Math.floor(value * 100) / 100
}

const asciiWord = (text: string) =>
  text
    .normalize('NFD')
    .replaceAll(/[^A-Za-z]/g, '')
    .toLowerCase()

/** A record of the built-in service, with its fields in the service's order. */
export type PersonRecord = ReturnType<typeof personRecord>

/** The person's record, whether or not a lookup finds it. Any field may be missing but id, confidence and date. */
export function personRecord(lookup: PersonLookup, { seed, missingShare }: RecordOptions) {
  const draw = createRng(seed, `person ${lookup.key}`)
  const orMissing = <T>(value: T): T | undefined => (draw.below(missingShare) ? undefined : value)
  const [first, last] = parseName(namePart(lookup)) ?? [draw.pick(firstNames), draw.pick(lastNames)]
  const domain = workDomain(lookup, draw)
  const slug = `${asciiWord(first)}-${asciiWord(last)}`
  const { title, seniority, department } = drawPosition(draw)
  const id = `per_${seededIdentifier(seed, `person ${lookup.key}`)}`
  const drawAnyPhone = () => {
    const phone = drawPhone(companyPlace(seed, domain), draw)
    return draw.below(missingShare) ? undefined : orMissing(phone)
  }
  const drawName = () => {
    const name = { full: orMissing(`${first} ${last}`), first: orMissing(first), last: orMissing(last) }
    return Object.values(name).some((part) => part !== undefined) ? name : undefined
  }
  // Drawn in this order: another one would give other records for the same seed. JSON leaves out what is undefined.
  return {
    id,
    email: lookup.kind === 'email' ? lookup.key : orMissing(`${slug.replace('-', '.')}@${domain}`),
    name: drawName(),
    title: orMissing(title),
    seniority: orMissing(seniority),
    department: orMissing(department),
    phone: drawAnyPhone(),
    linkedin:
      lookup.kind === 'linkedin'
        ? lookup.url
        : orMissing(`https://www.linkedin.com/in/${slug}-${id.slice(-5)}`),
    company: orMissing(companyIdentity(seed, domain)),
    confidence: drawConfidence(draw),
    last_updated: new Date(FIRST_UPDATE + Math.floor(draw.next() * UPDATE_SPAN_MS)).toISOString(),
  }
}

/** The person that a lookup finds; undefined if there is no match. */
export function findPerson(
  lookup: PersonLookup,
  options: RecordOptions & Pick<SandboxOptions, 'notFoundShare'>,
): PersonRecord | undefined {
  if (createRng(options.seed, `found ${lookup.key}`).below(options.notFoundShare)) return undefined
  return personRecord(lookup, options)
}
