/** Compounds written without a separator. */
const COMPOUND_WORDS: Readonly<Record<string, readonly string[]>> = {
  firstname: ['first', 'name'],
  lastname: ['last', 'name'],
  fullname: ['full', 'name'],
  displayname: ['display', 'name'],
  givenname: ['given', 'name'],
  familyname: ['family', 'name'],
  surname: ['last', 'name'],
  forename: ['first', 'name'],
  jobtitle: ['job', 'title'],
  emailaddress: ['email', 'address'],
  mailaddress: ['email', 'address'],
  phonenumber: ['phone', 'number'],
  telephone: ['phone'],
  companyname: ['company', 'name'],
  companyid: ['company', 'id'],
  accountid: ['account', 'id'],
  contactid: ['contact', 'id'],
  websiteurl: ['website', 'url'],
  homepage: ['website'],
  linkedinurl: ['linkedin', 'url'],
  headcount: ['employees'],
  numberofemployees: ['number', 'of', 'employees'],
  employeecount: ['employee', 'count'],
  companysize: ['company', 'size'],
  annualrevenue: ['annual', 'revenue'],
  foundedyear: ['founded', 'year'],
  mobilephone: ['mobile', 'phone'],
  workemail: ['work', 'email'],
  techstack: ['technologies'],
  iscompany: ['is', 'company'],
  isdeleted: ['is', 'deleted'],
  deletedat: ['deleted', 'at'],
  updatedat: ['updated', 'at'],
  modifiedat: ['modified', 'at'],
  organisation: ['organization'],
  organisations: ['organizations'],
  organisational: ['organizational'],
  anonymised: ['anonymized'],
}

/** Adjacent words that mean one word, or another one. */
const WORD_PAIRS: Readonly<Record<string, readonly string[]>> = {
  'linked in': ['linkedin'],
  'e mail': ['email'],
  'web site': ['website'],
  'home page': ['website'],
  'tech stack': ['technologies'],
  'head count': ['employees'],
  'sur name': ['last', 'name'],
  'tele phone': ['phone'],
}

/**
 * Splits a table or column name into lower-case words, whatever its convention: `work_email2`, `emailPrimary`,
 * `HQCity`, `E-Mail` → work email 2, email primary, hq city, email.
 */
export function splitIdentifier(name: string): string[] {
  const parts = name
    .replaceAll(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1 $2')
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .replaceAll(/(\p{L})(\p{N})/gu, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '')
    .flatMap((word) => COMPOUND_WORDS[word] ?? [word])
  const words: string[] = []
  for (const word of parts) {
    const pair = WORD_PAIRS[`${words.at(-1) ?? ''} ${word}`]
    if (pair) words.splice(-1, 1, ...pair)
    else words.push(word)
  }
  return words
}

const IRREGULAR_PLURALS: Readonly<Record<string, string>> = {
  people: 'person',
  persons: 'person',
  status: 'status',
}

/** `companies` → `company`, `addresses` → `address`, `people` → `person`. English only, as most names are. */
export function singularize(word: string): string {
  const irregular = IRREGULAR_PLURALS[word]
  if (irregular !== undefined) return irregular
  if (word.endsWith('ies') && word.length > 4) return `${word.slice(0, -3)}y`
  if (/(?:ss|x|ch|sh)es$/.test(word)) return word.slice(0, -2)
  return word.endsWith('s') && !word.endsWith('ss') && word.length > 3 ? word.slice(0, -1) : word
}

/** The word that names what a row is: `crm_contacts` → contact, `account_contacts` → contact. */
export const headNoun = (table: string): string => singularize(splitIdentifier(table).at(-1) ?? '')

/** Whether two names mean the same entity: `Contact`, `App\\Models\\Contact` and `crm_contacts`. */
export function isSameEntity(typeName: string, table: string): boolean {
  const last = typeName.split(/[^\p{L}\p{N}_-]+/u).findLast((part) => part !== '') ?? ''
  const [said, meant] = [last, table].map((name) => splitIdentifier(name).map(singularize).join(' '))
  if (said === undefined || meant === undefined || said === '') return false
  return said === meant || meant.endsWith(` ${said}`)
}
