import { chance, identifier } from './chance.ts'
import type { Chance } from './chance.ts'
import { capitalised, companyIdentity, domainOfName, placeOf } from './companies.ts'
import type { SandboxOptions } from './options.ts'
import type { PersonLookup, PersonRecord } from './records.ts'
import { companyWords, departments, firstNames, lastNames, mailHosts } from './words.ts'
import type { Place } from './words.ts'

type RecordOptions = Pick<SandboxOptions, 'seed' | 'missingShare'>

const firstUpdate = Date.UTC(2023, 0, 1)
const updateSpanMs = 1_000 * 24 * 3_600_000

/** 'anna.berg7', 'anna-berg-4711' and 'Anna Berg' say who is asked for; 'abe42' does not. */
function spokenName(text: string): readonly [string, string] | undefined {
  const parts = text
    .split(/[\s._-]+/)
    .map((part) => part.replace(/\d+$/, ''))
    .filter((part) => /^[\p{L}']{2,}$/u.test(part))
    .map(capitalised)
  const last = parts.at(-1)
  return parts[0] === undefined || last === undefined || parts.length < 2 ? undefined : [parts[0], last]
}

function spokenPart(lookup: PersonLookup): string {
  if (lookup.kind === 'name') return lookup.name
  if (lookup.kind === 'email') return lookup.key.slice(0, lookup.key.lastIndexOf('@')).replace(/\+.*/, '')
  return lookup.key.slice(lookup.key.lastIndexOf('/') + 1)
}

function workDomain(lookup: PersonLookup, draw: Chance): string {
  const madeUp = `${draw.pick(companyWords)}${draw.pick(companyWords)}.com`
  if (lookup.kind === 'linkedin') return madeUp
  if (lookup.kind === 'name') return domainOfName(lookup.company)
  const domain = lookup.key.slice(lookup.key.lastIndexOf('@') + 1)
  return mailHosts.has(domain) ? madeUp : domain
}

/** A job title with the seniority and department that it says. */
function position(draw: Chance): { title: string; seniority: string; department: string } {
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

/** A telephone number in E.164. */
function phoneIn({ dial: [code, first, digits] }: Place, draw: Chance): string {
  return `+${code}${first}${String(Math.floor(draw.next() * 10 ** digits)).padStart(digits, '0')}`
}

/** From 0 to 1 in hundredths, about a quarter of them under 0.7. */
function confidenceOf(draw: Chance): number {
  const value = draw.below(0.25) ? draw.next() * 0.7 : 0.7 + draw.next() * 0.3
  return Math.floor(value * 100) / 100
}

const asciiWord = (text: string) =>
  text
    .normalize('NFD')
    .replaceAll(/[^A-Za-z]/g, '')
    .toLowerCase()

/** The person's record, whether or not a lookup finds it. Each field but id, confidence and date may lack. */
export function personRecord(lookup: PersonLookup, options: RecordOptions): PersonRecord {
  const draw = chance(options.seed, `person ${lookup.key}`)
  const has = () => !draw.below(options.missingShare)
  const [first, last] = spokenName(spokenPart(lookup)) ?? [draw.pick(firstNames), draw.pick(lastNames)]
  const domain = workDomain(lookup, draw)
  const slug = `${asciiWord(first)}-${asciiWord(last)}`
  const { title, seniority, department } = position(draw)

  const record: Omit<PersonRecord, 'confidence' | 'last_updated'> = {
    id: `per_${identifier(options.seed, `person ${lookup.key}`)}`,
  }
  if (lookup.kind === 'email') record.email = lookup.key
  else if (has()) record.email = `${slug.replace('-', '.')}@${domain}`
  const name: NonNullable<PersonRecord['name']> = {}
  if (has()) name.full = `${first} ${last}`
  if (has()) name.first = first
  if (has()) name.last = last
  if (Object.keys(name).length > 0) record.name = name
  if (has()) record.title = title
  if (has()) record.seniority = seniority
  if (has()) record.department = department
  const phone = phoneIn(placeOf(options.seed, domain), draw)
  if (has() && has()) record.phone = phone
  if (lookup.kind === 'linkedin') record.linkedin = lookup.url
  else if (has()) record.linkedin = `https://www.linkedin.com/in/${slug}-${record.id.slice(-5)}`
  if (has()) record.company = companyIdentity(options.seed, domain)
  return {
    ...record,
    confidence: confidenceOf(draw),
    last_updated: new Date(firstUpdate + Math.floor(draw.next() * updateSpanMs)).toISOString(),
  }
}

/** The person that a lookup finds, or undefined where it matches nobody. */
export function findPerson(
  lookup: PersonLookup,
  options: RecordOptions & Pick<SandboxOptions, 'notFoundShare'>,
): PersonRecord | undefined {
  if (chance(options.seed, `found ${lookup.key}`).below(options.notFoundShare)) return undefined
  return personRecord(lookup, options)
}
