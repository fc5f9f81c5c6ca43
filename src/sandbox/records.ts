/** The records of service-interface.md, "Resources and their fields", with fields in that order. */
export interface PersonRecord {
  id: string
  email?: string
  name?: { full?: string; first?: string; last?: string }
  title?: string
  seniority?: string
  department?: string
  phone?: string
  linkedin?: string
  company?: { id: string; name: string; domain: string }
  confidence: number
  last_updated: string
}

export interface CompanyRecord {
  id: string
  name: string
  legal_name: string
  domain: string
  industry: string
  sub_industry: string
  employee_count: number
  employee_range: string
  revenue: number
  revenue_range: string
  founded_year: number
  location: { city: string; state: string; country: string }
  technologies: string[]
  social: { linkedin: string; twitter: string }
}

/**
 * One lookup in canonical form. `key` is equal for all spellings of the same lookup, and different for different
 * ones.
 */
export type PersonLookup =
  | { readonly kind: 'email'; readonly key: string }
  | { readonly kind: 'linkedin'; readonly key: string; readonly url: string }
  | { readonly kind: 'name'; readonly key: string; readonly name: string; readonly company: string }

export type CompanyLookup =
  | { readonly kind: 'domain'; readonly key: string }
  | { readonly kind: 'company'; readonly key: string; readonly name: string }
