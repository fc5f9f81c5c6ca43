import { chance, type Chance } from '../../../sandbox/chance.ts'
import { draw } from './shares.ts'
import {
  companyEnds,
  companyStarts,
  fillers,
  legalForms,
  typedCities,
  typedCountries,
  typedIndustries,
} from './words.ts'
import { spaced, writeNoWebsite, writeNothing, writeWebsite } from './writing.ts'

/** A row of crm.accounts, as it is before anything is enriched. */
export interface Account {
  readonly id: number
  readonly name: string
  readonly website: string | null
  readonly industry: string | null
  readonly employees: number | null
  readonly revenue: number | null
  readonly founded: number | null
  readonly city: string | null
  readonly country: string | null
  readonly technologies: readonly string[] | null
  readonly attributes: Readonly<Record<string, unknown>> | null
  readonly archived: boolean
}

/** A company that exists, whatever the CRM knows of it. */
export interface Company {
  readonly name: string
  /** Under .example, which nobody can own (RFC 2606). */
  readonly host: string
}

/** Company number n. Two numbers are never the same company, up to the number of names. */
export function company(seed: number, n: number): Company {
  const many = companyStarts.length * companyEnds.length
  // Any step that shares no factor with the number of names goes through all of them before one comes again.
  const place = (n * 1_009 + seed) % many
  const start = companyStarts[place % companyStarts.length] ?? ''
  const end = companyEnds[Math.floor(place / companyStarts.length)] ?? ''
  const word = start + end
  return {
    name: word + chance(seed, `legal form ${n}`).pick(legalForms),
    host: `${word.toLowerCase()}.example`,
  }
}

/** The accounts of the CRM: some companies are in it twice, and not all have a website. */
export function makeAccounts(
  seed: number,
  count: number,
): { readonly accounts: Account[]; readonly companies: Company[] } {
  const companies: Company[] = []
  const accounts = Array.from({ length: count }, (_, n): Account => {
    const luck = chance(seed, `account ${n}`)
    const isTwice = n > 20 && luck.below(0.04)
    const it = (isTwice ? companies[luck.between(0, n - 1)] : undefined) ?? company(seed, n)
    companies.push(it)
    return { id: n + 1, name: isTwice ? it.name.toUpperCase() : it.name, ...typed(luck, it) }
  })
  return { accounts, companies }
}

function typed(luck: Chance, { host }: Company): Omit<Account, 'id' | 'name'> {
  return {
    website: draw<() => string | null>(luck, [
      [88, () => writeWebsite(luck, host)],
      [6, () => writeNothing(luck)],
      [6, () => writeNoWebsite(luck, host)],
    ])(),
    industry: luck.below(0.24)
      ? luck.pick([...typedIndustries, ...typedIndustries, ...fillers])
      : writeNothing(luck),
    employees: luck.below(0.14) ? luck.pick([0, 5, 12, 40, 150, 900]) : null,
    revenue: luck.below(0.05) ? luck.pick([0, 1_000_000, 25_000_000]) : null,
    founded: luck.below(0.1) ? luck.between(1950, 2020) : null,
    city: luck.below(0.4) ? spaced(luck, luck.pick(typedCities)) : writeNothing(luck),
    country: luck.below(0.45) ? luck.pick(typedCountries) : writeNothing(luck),
    technologies: draw<readonly string[] | null>(luck, [
      [74, null],
      [18, []],
      [8, ['SAP']],
    ]),
    attributes: draw<Account['attributes']>(luck, [
      [55, null],
      [25, {}],
      [12, { tier: luck.pick(['A', 'B', 'C']) }],
      [5, { tier: 'A', sub_industry: 'Widgets' }],
      [3, { sub_industry: null }],
    ]),
    archived: luck.below(0.02),
  }
}
