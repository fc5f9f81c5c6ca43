/** Words that mean another one, or several: irregular compounds, British spelling, and the usual French and Spanish names. */
const COMPOUND_WORDS: Readonly<Record<string, readonly string[]>> = {
  surname: ['last', 'name'],
  forename: ['first', 'name'],
  firstname: ['first', 'name'],
  lastname: ['last', 'name'],
  telephone: ['phone'],
  homepage: ['website'],
  headcount: ['employees'],
  techstack: ['technologies'],
  jobtitle: ['job', 'title'],
  socpeople: ['company', 'people'],
  optout: ['opt', 'out'],
  optin: ['opt', 'in'],
  donotcall: ['do', 'not', 'call'],
  org: ['organization'],
  orgs: ['organizations'],
  organisation: ['organization'],
  organisations: ['organizations'],
  organisational: ['organizational'],
  inactive: ['inactive'],
  anonymised: ['anonymized'],
  anonymisation: ['anonymization'],
  normalised: ['normalized'],
  nom: ['name'],
  prenom: ['first', 'name'],
  nombre: ['name'],
  apellido: ['last', 'name'],
  apellidos: ['last', 'name'],
  nachname: ['last', 'name'],
  vorname: ['first', 'name'],
  societe: ['company'],
  soc: ['company'],
  entreprise: ['company'],
  empresa: ['company'],
  firma: ['company'],
  poste: ['job', 'title'],
  cargo: ['job', 'title'],
  courriel: ['email'],
  correo: ['email'],
  telefon: ['phone'],
  telefono: ['phone'],
  ville: ['city'],
  ciudad: ['city'],
  pays: ['country'],
  pais: ['country'],
  effectif: ['employees'],
  statut: ['status'],
  priv: ['private'],
  fk: [],
}

/** A set of words written in one text. */
export function toWordSet(words: string): ReadonlySet<string> {
  return new Set(words.trim().split(/\s+/))
}

/** Words that compounds without a separator consist of: `annualrevenue`, `companycity`, `emailoptout`. */
const SEGMENTS = toWordSet(
  `account active annual archived address billing blocked call city company companies contact count country created customer date deleted department
   details disabled display do domain email emails employee employees family first founded full given id industry is job last lead linkedin
   mail mobile modified name no not number of opt organization out person phone primary revenue secondary size state status
   tenant title updated url website work workspace year zipcode at in by`,
)

/** The fewest segments that a compound consists of; itself if it does not. */
function segmentWord(word: string): readonly string[] {
  if (word.length < 6 || word.length > 40 || SEGMENTS.has(word)) return [word]
  const best: Array<readonly string[] | null> = [[]]
  for (let end = 1; end <= word.length; end++) {
    best[end] = null
    for (let start = 0; start < end; start++) {
      const [before, segment] = [best[start], word.slice(start, end)]
      if (!before || !SEGMENTS.has(segment)) continue
      if (before.length + 1 < (best[end]?.length ?? Infinity)) best[end] = [...before, segment]
    }
  }
  return best[word.length] ?? [word]
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
  'opted out': ['opt', 'out'],
  'do not': ['no'],
  'black list': ['blacklist'],
  'block list': ['blocklist'],
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
    .flatMap((word) => COMPOUND_WORDS[word] ?? segmentWord(word))
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

/** The words of a table's name, each as written and as a singular: a column's name may repeat them. */
export const toOwnWords = (table: string): ReadonlySet<string> =>
  new Set(splitIdentifier(table).flatMap((word) => [word, singularize(word)]))

/** The word that names what a row is: `crm_contacts` → contact, `account_contacts` → contact. */
export const headNoun = (table: string): string => singularize(splitIdentifier(table).at(-1) ?? '')

/** Whether two names mean the same entity: `Contact`, `App\\Models\\Contact` and `crm_contacts`. */
export function isSameEntity(typeName: string, table: string): boolean {
  const last = typeName.split(/[^\p{L}\p{N}_-]+/u).findLast((part) => part !== '') ?? ''
  const [said, meant] = [last, table].map((name) => splitIdentifier(name).map(singularize).join(' '))
  if (said === undefined || meant === undefined || said === '') return false
  return said === meant || meant.endsWith(` ${said}`)
}
