import { type Rng, createRng, seededIdentifier } from './rng.ts'
import type { SandboxOptions } from './options.ts'
import { type FixturePlace, industries, places, technologies } from './fixtures.ts'

export interface CompanyLookup {
  readonly kind: 'domain'
  readonly key: string
}

/** As `11-50`: the numbers from one step to the next; the last one is open. */
function toRange(value: number, steps: readonly number[]): string {
  const at = steps.findIndex((step) => value <= step)
  return at === -1 ? `${steps.at(-1)}+` : `${(steps[at - 1] ?? 0) + 1}-${steps[at]}`
}

export const capitalize = (word: string) => word.charAt(0).toUpperCase() + word.slice(1)

function nameFromDomain(domain: string): string {
  const [label = domain] = domain.split('.')
  return label.split('-').filter(Boolean).map(capitalize).join(' ')
}

export function domainFromName(name: string): string {
  const label = name.normalize('NFD').replaceAll(/[^\p{L}\p{N}]+/gu, '')
  return `${label === '' ? 'company' : label}.com`.toLowerCase()
}

/** The facts that the records of a company's people carry too, so that both always agree. */
export function companyIdentity(seed: number, domain: string): { id: string; name: string; domain: string } {
  return { id: `com_${seededIdentifier(seed, `company ${domain}`)}`, name: nameFromDomain(domain), domain }
}

export function companyPlace(seed: number, domain: string): FixturePlace {
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
