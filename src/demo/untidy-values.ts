import type { NonEmptyList, Rng } from '../sandbox/rng.ts'

// Values as people and imports leave them in a CRM.

/** Copied values: the same to a reader and to Fillrate, with plain, no-break or zero-width spaces around it. */
export const withStraySpaces = (rng: Rng, text: string): string =>
  rng.below(0.86) ? text : rng.pick([` ${text}`, `${text} `, `${text}\u00a0`, `\u200b${text}`, `${text}\r\n`])

/** A blank value, as forms and imports leave it. */
export const writeBlank = (rng: Rng): string | null =>
  rng.pick([null, null, null, null, null, '', '', ' ', '\u00a0', '\u200b'])

/** A valid address, in any case, with spaces around it. */
export const writeEmail = (rng: Rng, address: string): string =>
  withStraySpaces(
    rng,
    rng.pick([
      address,
      address,
      address,
      address.charAt(0).toUpperCase() + address.slice(1),
      address.toUpperCase(),
    ]),
  )

export const writeInvalidEmail = (rng: Rng, address: string): string => {
  const [local = '', host = ''] = address.split('@')
  return rng.pick([
    `${local} <${address}>`,
    `mailto:${address}`,
    `${address}; office@${host}`,
    `${local} at ${host}`,
    `${local}@@${host}`,
    `${local}@.${host}`,
    local,
    'no email',
  ])
}

export const writeProfile = (rng: Rng, slug: string): string =>
  withStraySpaces(
    rng,
    rng.pick([
      `https://www.linkedin.com/in/${slug}`,
      `https://www.linkedin.com/in/${slug}/`,
      `linkedin.com/in/${slug}`,
      `https://no.linkedin.com/in/${slug}?originalSubdomain=no`,
      `http://linkedin.com/in/${slug}/details/experience/`,
      `HTTPS://WWW.LINKEDIN.COM/IN/${slug.toUpperCase()}`,
    ]),
  )

/** A handle, a company page, another network: not usable for a lookup. */
export const writeInvalidProfile = (rng: Rng, slug: string): string =>
  rng.pick([`@${slug}`, `https://www.linkedin.com/company/${slug}`, `https://twitter.com/${slug}`])

export const writeWebsite = (rng: Rng, host: string): string =>
  rng.pick([
    `https://www.${host}`,
    `https://www.${host}/`,
    host,
    `www.${host}`,
    `http://${host}/en/about-us?utm_source=crm`,
    `https://${host}:443/contact#office`,
    `HTTP://WWW.${host.toUpperCase()}/`,
    `${host}.`,
    `https://${host}/\u00a0`,
    `//${host}/de/`,
  ])

/** Not usable to identify a company. */
export const writeInvalidWebsite = (rng: Rng, host: string): string =>
  rng.pick([
    `info@${host}`,
    'gmail.com',
    'https://www.linkedin.com/company/acme/',
    'N/A',
    'localhost:8080',
    '192.0.2.10',
  ])

export const writePhone = (rng: Rng): string => {
  const digits = String(rng.between(20_000_000, 99_999_999))
  return rng.pick([
    `+47 ${digits.slice(0, 3)} ${digits.slice(3, 5)} ${digits.slice(5)}`,
    `0047${digits}`,
    `${digits} (mobile)`,
    digits,
  ])
}

/** What people enter into mandatory fields: real values, which must not be overwritten. */
export const placeholderValues: NonEmptyList<string> = ['N/A', 'n/a', '-', '?', 'unknown', '0']

/** Titles as a sales team enters them. */
// prettier-ignore
export const typedTitles: NonEmptyList<string> = [
  'CEO', 'CTO', 'Head of Sales', 'head of it', 'Owner', 'Founder & CEO', 'Buyer', 'Office Manager',
  'Consultant', 'Dr.', 'Project lead (until June)', 'Daglig leder', 'Geschäftsführer',
]
