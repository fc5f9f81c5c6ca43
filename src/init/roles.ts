import { toWordSet } from './words.ts'

/**
 * Phrases that name a role, with up to 110 points. The words of a phrase must be adjacent. Roles of people first, then of
 * companies.
 */
const ROLE_PHRASES = {
  email: { email: 100, emails: 95, mail: 75, 'email id': 80 },
  profile: { linkedin: 100, 'profile url': 60, 'social url': 50 },
  first_name: { 'first name': 100, 'given name': 100, 'name first': 95 },
  last_name: { 'last name': 100, 'family name': 100, 'name last': 95 },
  name: {
    'full name': 100,
    'contact name': 96,
    'person name': 96,
    'lead name': 96,
    'display name': 85,
    name: 90,
  },
  company_name: {
    'company name': 100,
    'organization name': 100,
    'account name': 95,
    'employer name': 100,
    'partner name': 80,
    company: 90,
    employer: 90,
    organization: 85,
    workplace: 80,
  },
  company_domain: {
    'company domain': 100,
    'company website': 100,
    'employer domain': 100,
    'company url': 90,
  },
  title: {
    'job title': 100,
    title: 92,
    'job position': 90,
    'job role': 90,
    position: 78,
    function: 78,
    occupation: 80,
    designation: 84,
    headline: 76,
    job: 80,
    role: 66,
  },
  seniority: { seniority: 100, 'job level': 85, 'management level': 90 },
  department: { department: 100, dept: 95, 'job function': 88, division: 66 },
  phone: {
    phone: 100,
    'direct dial': 90,
    tel: 90,
    phones: 90,
    telephone: 100,
    mobile: 76,
    cell: 70,
  },
  domain: {
    'domain name': 100,
    domain: 98,
    domains: 95,
    website: 100,
    web: 80,
    url: 76,
    'email domain': 90,
    site: 66,
  },
  industry: { industry: 100, sector: 84, vertical: 70 },
  sub_industry: { 'sub industry': 110, subindustry: 110, 'industry group': 95 },
  employees: {
    employees: 100,
    'employee count': 105,
    'employee range': 105,
    'company size': 95,
    'staff count': 95,
    'number staff': 95,
    'number employees': 105,
    'no of employees': 105,
    'employees range': 105,
    size: 64,
    'organization size': 95,
  },
  employee_range: {
    'number staff': 95,
    'number employees': 95,
    'employee band': 100,
    'employee size': 95,
    'size bracket': 95,
    'employee range': 105,
    'employees range': 105,
    'company size': 95,
    'organization size': 95,
    'size band': 95,
    'employees band': 100,
    employees: 90,
    size: 64,
  },
  revenue: { revenue: 100, turnover: 95 },
  founded: {
    founded: 100,
    'founding year': 100,
    'year founded': 105,
    'founded year': 105,
    'year started': 90,
    established: 76,
  },
  city: { city: 100, town: 90, locality: 90 },
  state: { 'state or province': 100, state: 90, province: 95, region: 80 },
  country: { 'country code': 95, country: 100, 'country name': 105 },
  technologies: { technologies: 100, technology: 80, tech: 66, 'technology stack': 100 },
  twitter: { twitter: 100, 'x link': 90, 'x url': 90, 'x profile': 90 },
  legal_name: { 'legal name': 110, 'registered name': 105, 'legal entity name': 110 },
} satisfies Readonly<Record<string, Readonly<Record<string, number>>>>

/** What a column seems to hold. */
export type ColumnRole = keyof typeof ROLE_PHRASES

/**
 * How strongly the words of a name indicate a role, 0 to 110. Pure.
 * @param own words of the table's own name, which add nothing here
 */
export function scoreName(role: ColumnRole, words: readonly string[], own: ReadonlySet<string>): number {
  // `no_email` is a flag, `no_of_employees` a count.
  if (words[0] === 'no' && words[1] !== 'of' && words[1] !== 'employees') return 0
  let best = 0
  for (const [phrase, points] of Object.entries(ROLE_PHRASES[role])) {
    const rest = removePhrase(words, phrase.split(' '))
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
