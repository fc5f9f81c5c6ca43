import type { SourceKind } from '../domain/mapping.ts'
import { toWordSet } from './words.ts'

/**
 * Phrases that name a role, by their points: up to 110. The words of a phrase must be adjacent. Roles of people first,
 * then of companies.
 */
const ROLE_PHRASES = {
  email: { 100: 'email', 95: 'emails', 80: 'email id', 75: 'mail' },
  profile: { 100: 'linkedin', 60: 'profile url', 50: 'social url' },
  first_name: { 100: 'first name|given name', 95: 'name first' },
  last_name: { 100: 'last name|family name', 95: 'name last' },
  name: { 100: 'full name', 96: 'contact name|person name|lead name', 90: 'name', 85: 'display name' },
  company_name: {
    100: 'company name|organization name|employer name',
    95: 'account name|enterprise name',
    90: 'company|employer',
    85: 'organization',
    80: 'partner name|workplace',
  },
  company_domain: { 100: 'company domain|company website|employer domain', 90: 'company url' },
  title: {
    100: 'job title',
    92: 'title',
    90: 'job position|job role',
    84: 'designation',
    80: 'occupation|job',
    78: 'position|function',
    76: 'headline',
    66: 'role',
  },
  seniority: { 100: 'seniority', 90: 'management level', 85: 'job level' },
  department: { 100: 'department', 95: 'dept', 88: 'job function', 66: 'division' },
  phone: { 100: 'phone|telephone', 90: 'direct dial|tel|phones', 76: 'mobile', 70: 'cell' },
  domain: {
    100: 'domain name|website',
    98: 'domain',
    95: 'domains',
    90: 'email domain',
    80: 'web',
    76: 'url',
    66: 'site',
  },
  industry: { 100: 'industry', 84: 'sector', 70: 'vertical' },
  sub_industry: { 110: 'sub industry|subindustry', 95: 'industry group' },
  employees: {
    105: 'employee count|employees count|employee range|number employees|no of employees|employees range',
    100: 'employees',
    95: 'company size|staff count|number staff|organization size',
    76: 'staff',
    64: 'size',
  },
  employee_range: {
    105: 'employee range|employees range',
    100: 'employee band|employees band',
    95: 'number staff|number employees|employee size|size bracket|company size|organization size|size band',
    90: 'employees',
    64: 'size',
  },
  revenue: { 100: 'revenue', 95: 'turnover' },
  founded: {
    105: 'year founded|founded year',
    100: 'founded|founding year',
    90: 'year started',
    76: 'established',
  },
  city: { 100: 'city', 90: 'town|locality' },
  state: { 100: 'state or province', 95: 'province', 90: 'state', 80: 'region' },
  country: { 105: 'country name', 100: 'country', 95: 'country code' },
  technologies: { 100: 'technologies|technology stack', 80: 'technology', 66: 'tech' },
  twitter: { 100: 'twitter', 90: 'x link|x url|x profile' },
  legal_name: { 110: 'legal name|legal entity name', 105: 'registered name' },
} satisfies Readonly<Record<string, Readonly<Record<number, string>>>>

/** What a column seems to hold. */
export type ColumnRole = keyof typeof ROLE_PHRASES

/** Where a company is. */
export const PLACE_ROLES: readonly ColumnRole[] = ['city', 'state', 'country']

/**
 * What is read of a row of each kind, in the order of the configuration: the role, how much it says for the kind, and the
 * field of the record that fills it, if one does.
 */
const ROLES: Readonly<Record<SourceKind, ReadonlyMap<ColumnRole, RoleUse>>> = {
  person: readUses(
    `email:1 first_name:1 last_name:2 name:1 title:1=title seniority:2=seniority department:1=department phone:0=phone
     profile:2=linkedin company_name:1=company.name company_domain:0=company.domain`,
  ),
  company: readUses(
    `domain:2 email:0 name:1 legal_name:1=legal_name industry:2=industry sub_industry:1=sub_industry employees:2=employee_count
     employee_range:0=employee_range revenue:1=revenue founded:1=founded_year city:0=location.city state:0=location.state
     country:0=location.country technologies:1=technologies profile:0=social.linkedin twitter:1=social.twitter`,
  ),
}

interface RoleUse {
  readonly points: number
  readonly field: string | null
}

function readUses(text: string): ReadonlyMap<ColumnRole, RoleUse> {
  const uses = text.split(/\s+/).map((use) => use.split(/[:=]/) as [ColumnRole, string, string?])
  return new Map(uses.map(([role, points, field = null]) => [role, { points: Number(points), field }]))
}

export const rolesOf = (kind: SourceKind): ColumnRole[] => [...ROLES[kind].keys()]

/** How much a role says for a kind. */
export const kindPoints = (kind: SourceKind, role: ColumnRole): number => ROLES[kind].get(role)?.points ?? 0

/** The field of the record that fills a role; null if it is only read. */
export const outputField = (kind: SourceKind, role: ColumnRole): string | null =>
  ROLES[kind].get(role)?.field ?? null

const PHRASES = new Map(
  Object.entries(ROLE_PHRASES).map(([role, byPoints]) => [
    role,
    Object.entries<string>(byPoints).flatMap(([points, phrases]) =>
      phrases.split('|').map((phrase) => ({ phrase: phrase.split(' '), points: Number(points) })),
    ),
  ]),
)

/**
 * How strongly the words of a name indicate a role, 0 to 110. Pure.
 * @param own words of the table's own name, which add nothing here
 */
export function scoreName(role: ColumnRole, words: readonly string[], own: ReadonlySet<string>): number {
  // `no_email` is a flag, `no_of_employees` a count.
  if (words[0] === 'no' && words[1] !== 'of' && words[1] !== 'employees') return 0
  let best = 0
  for (const { phrase, points } of PHRASES.get(role) ?? []) {
    const rest = removePhrase(words, phrase)
    if (rest !== null) best = Math.max(best, points - extraWordsCost(rest, own))
  }
  return Math.max(0, best)
}

/** The words without the first occurrence of the phrase; null if it does not occur. */
function removePhrase(words: readonly string[], phrase: readonly string[]): string[] | null {
  const at = words.findIndex((_, n) => phrase.every((word, i) => words[n + i] === word))
  return at === -1 ? null : [...words.slice(0, at), ...words.slice(at + phrase.length)]
}

function extraWordsCost(rest: readonly string[], own: ReadonlySet<string>): number {
  return rest.reduce((cost, word) => {
    if (EXCLUDING_WORDS.has(word)) return cost + 1_000
    if (SECONDARY_WORDS.has(word)) return cost + 20
    if (NEUTRAL_WORDS.has(word) || own.has(word)) return cost + 1
    return cost + 16
  }, 0)
}

/** Whether a name marks a secondary value: `lower`, `email2`. */
export const isSecondary = (words: readonly string[]): boolean =>
  words.some((word) => SECONDARY_WORDS.has(word))

/** Whether a name says that the column holds something else, whatever its values look like: `cc_email`, `owner_email`. */
export const isOfOthers = (words: readonly string[]): boolean => words.some((word) => OTHERS_WORDS.has(word))
const OTHERS_WORDS = toWordSet(
  'cc bcc reply owner manager assistant sender recipient creator referrer support from by',
)

/** Words that rule a role out: the column describes the thing instead of holding it. */
const EXCLUDING_WORDS = toWordSet(
  `id ids uuid at count counts hash token is has verified valid invalid status type kind flag label labels opt out
   bounced bounce template subject body sent created updated modified deleted by source format log image logo file avatar photo
   picture icon currency extension ext calling fax code codes prefix suffix salutation followers connections score
   rank manager assistant owner recruiter referrer referral creator author sender recipient reply cc bcc spouse emergency
   previous former old birth born place recurring forecast expected lifetime target quota password reset
   consent preference preferences frequency note notes description comment comments handle username
   thumbnail permalink callback webhook calendar booking meeting unsubscribe tracking redirect cover banner favicon
   feed rss api endpoint support facebook instagram github skype xing blog search vector timezone zone locale lang language index tax vat
   abbr abbreviation alpha iso caps slug key reason street zip postal postcode lat latitude lng longitude geo distance
   rating confidence enriched`,
)

/** Words that add nothing: they only say which value it is, usually the main one. */
const NEUTRAL_WORDS = toWordSet(
  `primary main work business contact person people customer client lead company account organization the x custom default
   current address link links url number no num of value text raw name emails attributes property properties data fields profile
   job direct office hq headquarters head annual yearly amount usd eur micros cents in million range band list page web
   partner member details info billing bill studio jsonb json c cf 1`,
)

/** Words of a secondary value: another column is preferred. */
const SECONDARY_WORDS = toWordSet(
  `secondary alternate alternative alt other additional second home private personal ship shipping mailing delivery visiting
   mobile cell invoice registered lower normalized canonical original 2 3 4 5`,
)
