import { type Rng, createRng, seededIdentifier, type NonEmptyList } from './rng.ts'
import type { SandboxOptions } from './options.ts'

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
export type PersonRecord = ReturnType<typeof toPersonRecord>

/** The person's record, whether or not a lookup finds it. Any field may be missing but id, confidence and date. */
export function toPersonRecord(lookup: PersonLookup, { seed, missingShare }: RecordOptions) {
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
  return toPersonRecord(lookup, options)
}

export interface CompanyLookup {
  readonly kind: 'domain'
  readonly key: string
}

/** As `11-50`: the numbers from one step to the next; the last one is open. */
function toRange(value: number, steps: readonly number[]): string {
  const at = steps.findIndex((step) => value <= step)
  return at === -1 ? `${steps.at(-1)}+` : `${(steps[at - 1] ?? 0) + 1}-${steps[at]}`
}

const capitalize = (word: string) => word.charAt(0).toUpperCase() + word.slice(1)

function nameFromDomain(domain: string): string {
  const [label = domain] = domain.split('.')
  return label.split('-').filter(Boolean).map(capitalize).join(' ')
}

function domainFromName(name: string): string {
  const label = name.normalize('NFD').replaceAll(/[^\p{L}\p{N}]+/gu, '')
  return `${label === '' ? 'company' : label}.com`.toLowerCase()
}

/** The facts that the records of a company's people carry too, so that both always agree. */
function companyIdentity(seed: number, domain: string): { id: string; name: string; domain: string } {
  return { id: `com_${seededIdentifier(seed, `company ${domain}`)}`, name: nameFromDomain(domain), domain }
}

function companyPlace(seed: number, domain: string): FixturePlace {
  return createRng(seed, `place ${domain}`).pick(places)
}

function someTechnologies(draw: Rng): string[] {
  const count = draw.between(0, 6)
  return [...new Set(Array.from({ length: count }, () => draw.pick(technologies)))].sort()
}

/** The record of the company at a domain: all fields, whole numbers; revenue may exceed 32 bits. */
export function companyRecord(seed: number, domain: string) {
  const draw = createRng(seed, `company ${domain}`)
  const { id, name } = companyIdentity(seed, domain)
  const { city, state, country, company } = companyPlace(seed, domain)
  const industry = draw.pick(industries)
  const employees = Math.ceil(60_000 ** draw.next())
  const revenue = employees * draw.between(60_000, 400_000)
  const slug = domain.split('.')[0] ?? domain
  return {
    id,
    name,
    legal_name: `${name} ${company}`,
    domain,
    industry: industry.industry,
    sub_industry: draw.pick(industry.parts),
    employee_count: employees,
    employee_range: toRange(employees, [10, 50, 200, 500, 1_000, 5_000, 10_000]),
    revenue,
    revenue_range: `${toRange(revenue / 1e6, [1, 10, 50, 100, 500, 1_000])} million`,
    founded_year: draw.between(1890, 2022),
    location: { city, state, country },
    technologies: someTechnologies(draw),
    social: { linkedin: `https://www.linkedin.com/company/${slug}`, twitter: `https://twitter.com/${slug}` },
  }
}

/** The company that a lookup finds; undefined if there is no match. */
export function findCompany(
  lookup: CompanyLookup,
  options: Pick<SandboxOptions, 'seed' | 'notFoundShare'>,
): ReturnType<typeof companyRecord> | undefined {
  if (createRng(options.seed, `found ${lookup.key}`).below(options.notFoundShare)) return undefined
  return companyRecord(options.seed, lookup.key)
}

/** Words that made-up records consist of. Any resemblance is accidental. */

// prettier-ignore
export const firstNames: NonEmptyList<string> = [
  'Amara', 'Anna', 'Åsa', 'Ben', 'Carlos', 'Chiara', 'Chloé', 'Daniel', 'Dmitri', 'Elena', 'Emma', 'Farah',
  'Grace', 'Hiroshi', 'Ingrid', 'Isaac', 'Jonas', 'José', 'Julia', 'Kofi', 'Laura', 'Leila', 'Liam', 'Lucía',
  'Maria', 'Mateo', 'Mei', 'Nadia', 'Noah', 'Olga', 'Omar', 'Øyvind', 'Priya', 'Rachel', 'Ravi', 'Samuel',
  'Sofia', 'Tariq', 'Thomas', 'Yuki',
]

// prettier-ignore
export const lastNames: NonEmptyList<string> = [
  'Abara', 'Andersen', 'Bauer', 'Berg', 'Bianchi', 'Brown', 'Chen', 'Cohen', 'Costa', 'Dubois', 'Eriksson',
  'Fischer', 'García', 'Haddad', 'Hansen', 'Ivanova', 'Jansen', 'Johnson', 'Kaya', 'Kim', 'Kowalski', 'Kumar',
  'Larsen', 'López', 'Martin', 'Mbeki', 'Meyer', 'Murphy', 'Müller', 'Nakamura', 'Nguyen', 'Novák', "O'Brien",
  'Okafor', 'Olsen', 'Patel', 'Rossi', 'Sato', 'Schmidt', 'Silva', 'Smith', 'Taylor', 'Van Dijk', 'Weber',
  'Williams', 'Wilson', 'Yılmaz', 'Zhang',
]

interface Department {
  readonly department: string
  readonly field: string
  readonly chief: string
  readonly roles: NonEmptyList<string>
}

// prettier-ignore
const departments: NonEmptyList<Department> = [
  { department: 'engineering', field: 'Engineering', chief: 'Chief Technology Officer', roles: ['Software Engineer', 'Data Engineer', 'Site Reliability Engineer'] },
  { department: 'sales', field: 'Sales', chief: 'Chief Revenue Officer', roles: ['Account Executive', 'Sales Representative', 'Sales Engineer'] },
  { department: 'marketing', field: 'Marketing', chief: 'Chief Marketing Officer', roles: ['Content Strategist', 'Growth Marketer', 'Brand Specialist'] },
  { department: 'finance', field: 'Finance', chief: 'Chief Financial Officer', roles: ['Accountant', 'Financial Analyst'] },
  { department: 'operations', field: 'Operations', chief: 'Chief Operating Officer', roles: ['Operations Analyst', 'Logistics Coordinator'] },
  { department: 'support', field: 'Customer Success', chief: 'Chief Customer Officer', roles: ['Support Specialist', 'Onboarding Specialist'] },
]

export interface FixturePlace {
  readonly city: string
  readonly state: string
  readonly country: string
  /** The calling code, the first digit of a number, and how many digits follow it. */
  readonly dial: readonly [code: string, first: string, digits: number]
  readonly company: string
}

// prettier-ignore
const places: NonEmptyList<FixturePlace> = [
  { city: 'Austin', state: 'Texas', country: 'United States', dial: ['1', '5', 9], company: 'Inc.' },
  { city: 'Boston', state: 'Massachusetts', country: 'United States', dial: ['1', '6', 9], company: 'LLC' },
  { city: 'Oslo', state: 'Oslo', country: 'Norway', dial: ['47', '9', 7], company: 'AS' },
  { city: 'München', state: 'Bayern', country: 'Germany', dial: ['49', '1', 10], company: 'GmbH' },
  { city: 'Valencia', state: 'Comunidad Valenciana', country: 'Spain', dial: ['34', '6', 8], company: 'S.L.' },
  { city: 'Pune', state: 'Maharashtra', country: 'India', dial: ['91', '9', 9], company: 'Pvt. Ltd.' },
]

interface Industry {
  readonly industry: string
  readonly parts: NonEmptyList<string>
}

// prettier-ignore
const industries: NonEmptyList<Industry> = [
  { industry: 'Software', parts: ['Business Software', 'Developer Tools', 'Security Software'] },
  { industry: 'Manufacturing', parts: ['Machinery', 'Electronics', 'Packaging'] },
  { industry: 'Financial Services', parts: ['Banking', 'Insurance', 'Payments'] },
  { industry: 'Health Care', parts: ['Medical Devices', 'Hospitals', 'Biotechnology'] },
  { industry: 'Retail', parts: ['Grocery', 'Fashion', 'Home Goods'] },
]

// prettier-ignore
const technologies: NonEmptyList<string> = [
  'PostgreSQL', 'React', 'Kubernetes', 'Terraform', 'Kafka', 'Redis', 'Salesforce', 'HubSpot', 'Stripe',
  'Snowflake', 'dbt', 'Airflow', 'Go', 'TypeScript', 'Python', 'Grafana',
]
