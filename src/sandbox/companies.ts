import { createRng, seededIdentifier } from './rng.ts'
import type { Rng } from './rng.ts'
import type { SandboxOptions } from './options.ts'
import { industries, places, technologies } from './fixtures.ts'
import type { FixturePlace } from './fixtures.ts'

export type CompanyLookup =
  | { readonly kind: 'domain'; readonly key: string }
  | { readonly kind: 'company'; readonly key: string; readonly name: string }

/** The exclusive upper end of each range and its name; the last name covers all larger values. */
type Steps = readonly (readonly [below: number, name: string])[]

const employeeSteps: Steps = [
  [11, '1-10'],
  [51, '11-50'],
  [201, '51-200'],
  [501, '201-500'],
  [1_001, '501-1000'],
  [5_001, '1001-5000'],
  [10_001, '5001-10000'],
  [Infinity, '10001+'],
]
const revenueSteps: Steps = [
  [1e6, '$0-$1M'],
  [10e6, '$1M-$10M'],
  [50e6, '$10M-$50M'],
  [100e6, '$50M-$100M'],
  [500e6, '$100M-$500M'],
  [1e9, '$500M-$1B'],
  [Infinity, '$1B+'],
]

const rangeName = (value: number, steps: Steps) => steps.find(([below]) => value < below)?.[1] ?? ''

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
    employee_range: rangeName(employees, employeeSteps),
    revenue,
    revenue_range: rangeName(revenue, revenueSteps),
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
  return companyRecord(options.seed, lookup.kind === 'domain' ? lookup.key : domainFromName(lookup.name))
}
