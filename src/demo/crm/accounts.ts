import { type Rng, createRng } from '../../sandbox/rng.ts'
import {
  drawWeighted,
  withStraySpaces,
  writeBlank,
  writeInvalidWebsite,
  writeWebsite,
} from './dirty-values.ts'
import { TYPED, companyEnds, companyStarts, legalForms, placeholderValues } from './words.ts'

/** A company that exists, whatever the CRM knows about it. */
export interface CrmCompany {
  readonly name: string
  /** Under .example, which is reserved (RFC 2606). */
  readonly host: string
}

/** Company number n. Different numbers give different companies, up to the number of names. */
export function companyAt(seed: number, n: number): CrmCompany {
  const many = companyStarts.length * companyEnds.length
  // A step coprime to the number of names visits all of them before one repeats.
  const place = (n * 1_009 + seed) % many
  const start = companyStarts[place % companyStarts.length] ?? ''
  const end = companyEnds[Math.floor(place / companyStarts.length)] ?? ''
  const word = start + end
  return {
    name: word + createRng(seed, `legal form ${n}`).pick(legalForms),
    host: `${word.toLowerCase()}.example`,
  }
}

/** The accounts of the CRM, some duplicated, some without a website. */
export function createAccounts(seed: number, count: number) {
  const companies: CrmCompany[] = []
  const accounts = Array.from({ length: count }, (_, n) => {
    const rng = createRng(seed, `account ${n}`)
    const isTwice = n > 20 && rng.below(0.04)
    const company = (isTwice ? companies[rng.between(0, n - 1)] : undefined) ?? companyAt(seed, n)
    companies.push(company)
    const { name, host } = company
    return { id: n + 1, name: isTwice ? name.toUpperCase() : name, ...typedAccountFields(rng, host) }
  })
  return { accounts, companies }
}

function typedAccountFields(rng: Rng, host: string) {
  return {
    website: drawWeighted<() => string | null>(rng, [
      [88, () => writeWebsite(rng, host)],
      [6, () => writeBlank(rng)],
      [6, () => writeInvalidWebsite(rng, host)],
    ])(),
    industry: rng.below(0.24)
      ? rng.pick([...TYPED.industry, ...TYPED.industry, ...placeholderValues])
      : writeBlank(rng),
    employees: rng.below(0.14) ? rng.pick([0, 5, 12, 40, 150, 900]) : null,
    revenue: rng.below(0.05) ? rng.pick([0, 1_000_000, 25_000_000]) : null,
    founded: rng.below(0.1) ? rng.between(1950, 2020) : null,
    city: rng.below(0.4) ? withStraySpaces(rng, rng.pick(TYPED.city)) : writeBlank(rng),
    country: rng.below(0.45) ? rng.pick(TYPED.country) : writeBlank(rng),
    technologies: drawWeighted<readonly string[] | null>(rng, [
      [74, null],
      [18, []],
      [8, ['SAP']],
    ]),
    attributes: drawWeighted<Readonly<Record<string, unknown>> | null>(rng, [
      [55, null],
      [25, {}],
      [12, { tier: rng.pick(['A', 'B', 'C']) }],
      [5, { tier: 'A', sub_industry: 'Widgets' }],
      [3, { sub_industry: null }],
    ]),
    archived: rng.below(0.02),
  }
}
