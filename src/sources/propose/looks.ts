import { normalizeDomain } from '../../domain/identifiers/domain.ts'
import { normalizeEmail } from '../../domain/identifiers/email.ts'
import { normalizeProfileUrl } from '../../domain/identifiers/profile-url.ts'
import type { Role } from './role.ts'

/** What sampled values look like. Fewer than this prove nothing. */
const ENOUGH = 5

const isEmail = (value: string): boolean => normalizeEmail(value)?.ok === true
const isProfile = (value: string): boolean => normalizeProfileUrl(value)?.ok === true
const isCompanyPage = (value: string): boolean => /linkedin\.com\/(?:company|school|showcase)\//i.test(value)

/** A host or a URL; one of a network or of free mail is no company's own, but shows what the column is for. */
function isSite(value: string): boolean {
  const read = normalizeDomain(value)
  return read?.ok === true || (read?.ok === false && /(?:free-mail|social) host|localhost/.test(read.reason))
}

const isPhone = (value: string): boolean =>
  /^[+(]?[\d\s().\-/]{5,}(?:\s*(?:ext|x)\.?\s*\d+)?$/i.test(value.trim()) &&
  value.replaceAll(/\D/g, '').length >= 5

const isNumber = (value: string): boolean => /^-?[\d.,\s]+$/.test(value.trim())

const SALUTATIONS = new Set('mr mrs ms miss mx dr prof herr frau hr fru monsieur madame sr sra'.split(' '))
const isSalutation = (value: string): boolean =>
  SALUTATIONS.has(value.trim().toLowerCase().replace(/\.$/, ''))

/** Of the values, the share that passes. Null where there are too few to say. */
export function share(values: readonly string[], test: (value: string) => boolean): number | null {
  return values.length < ENOUGH ? null : values.filter(test).length / values.length
}

/**
 * What the values of a column say about what its name promises, in points to be added: they decide between two
 * candidates, and against one whose values are something else. Pure.
 */
export function evidenceFor(role: Role, values: readonly string[]): number {
  switch (role) {
    case 'email':
      return weigh(share(values, isEmail))
    case 'profile':
      return weigh(share(values, (value) => isProfile(value) || isCompanyPage(value)))
    case 'domain':
    case 'company_domain':
      return weigh(share(values, isSite))
    case 'phone':
      return weigh(share(values, isPhone))
    case 'title':
      return (share(values, isSalutation) ?? 0) > 0.5 ? -1_000 : against(share(values, isNumber))
    case 'twitter':
      return weigh(share(values, (value) => /^https?:\/\/|\.com\//i.test(value)))
    case 'founded':
      return weigh(share(values, (value) => /^(?:1[5-9]|20)\d\d$/.test(value.trim())))
    case 'employees':
    case 'revenue':
      return weigh(share(values, (value) => /\d/.test(value)))
    case 'technologies':
      return 0
    default:
      return against(
        share(values, (value) => isNumber(value) || isEmail(value) || /^https?:\/\//i.test(value)),
      )
  }
}

/** Many that fit speak for it, few against it, and none at all is proof. */
function weigh(fitting: number | null): number {
  if (fitting === null) return 0
  if (fitting < 0.05) return -1_000
  return fitting < 0.3 ? -60 : Math.round(fitting * 20)
}

const against = (misfits: number | null): number => ((misfits ?? 0) > 0.6 ? -1_000 : 0)

/** A column whose values are something, whatever it is called. */
export function roleByLooks(values: readonly string[]): Role | null {
  const enough = values.length >= 2 * ENOUGH
  if (enough && values.filter(isEmail).length >= values.length * 0.7) return 'email'
  if (enough && values.filter(isProfile).length >= values.length * 0.7) return 'profile'
  return null
}
