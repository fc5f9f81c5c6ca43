import { HARMLESS, HARMLESS_LISTS, IN_USE } from './harmless.ts'
import { COMPOUNDS, DICTIONARY, WORD_PAIRS } from './vocabulary.ts'

/** Lower case without accents; `ä` as `ae`, as names without such letters spell it in German and Danish. */
const plain = (word: string): string =>
  withoutAccents(word.toLowerCase().replaceAll(/[äöüæøß]/g, (letter) => LETTERS[letter] ?? letter))
const LETTERS: Readonly<Record<string, string>> = {
  ä: 'ae',
  ö: 'oe',
  ü: 'ue',
  æ: 'ae',
  ø: 'oe',
  ß: 'ss',
}

/** `ä` as `a`, as names without such letters spell it in Swedish and Finnish. */
const withoutAccents = (word: string): string =>
  word.replaceAll('ø', 'o').replaceAll('ł', 'l').normalize('NFD').replaceAll(/\p{M}/gu, '')

const listWords = (text: string): string[] => text.trim().split(/\s+/)

const ENGLISH: ReadonlyMap<string, readonly string[]> = new Map([
  ...Object.entries(DICTIONARY).flatMap(([english, others]) =>
    listWords(others).flatMap((word) =>
      [withoutAccents(word), plain(word)].map((spelled) => [spelled, listWords(english)] as const),
    ),
  ),
  ...Object.entries(COMPOUNDS).map(
    ([word, english]) => [plain(word), english === '' ? [] : listWords(english)] as const,
  ),
])

/** The English words of one in another language; a plural or a feminine form as its stem. */
const toEnglish = (word: string): readonly string[] | undefined => {
  const own = ENGLISH.get(word)
  if (own !== undefined || word.length < 8) return own
  return (
    ENGLISH.get(word.replace(/[sn]$/, '')) ??
    ENGLISH.get(word.replace(/es?$/, '')) ??
    ENGLISH.get(word.replace(/as?$/, 'o'))
  )
}

/** Words that compounds without a separator consist of: `annualrevenue`, `hasoptedoutofemail`, `ansprechpartnername`. */
const SEGMENTS: ReadonlySet<string> = new Set(
  [
    ...ENGLISH.keys(),
    ...Object.keys(DICTIONARY).flatMap(listWords),
    ...[HARMLESS, HARMLESS_LISTS, IN_USE].flatMap(listWords),
    ...listWords(
      `annual with billing created display do domain first full family given has id in at by is il job last linked mail master modified
       not number of on opt opted out opt posted postal code reason record secondary size sub tenant title updated unsubscribed
       url work workspace year years zip bank post marked corporate bounced shipping mailing street fax assistant description owner other parent bulk donot
       business entity object party subject item or province hidden send postal portal info list entry campaign member event audience interest started band should forget process processing solicit profiling historical workflow hold only tracking suppressed disabled enabled banned trashed suspended range legal global subscription alternate business salesperson`,
    ),
  ].filter(
    (word) =>
      word.length > 2 || ['id', 'of', 'or', 'il', 'in', 'at', 'by', 'is', 'no', 'do', 'on'].includes(word),
  ),
)

/** The fewest segments that a compound consists of, as in `företagsnamn` perhaps with an `s` between them; itself if it does not. */
function segmentWord(word: string): readonly string[] {
  if (word.length < 6 || word.length > 40 || SEGMENTS.has(word)) return [word]
  const best: Array<readonly string[] | null> = [[]]
  for (let end = 1; end <= word.length; end++) {
    best[end] = null
    for (let start = 0; start < end; start++) {
      const [before, segment] = [best[start], word.slice(start, end)]
      const isLink = segment === 's' && (before?.at(-1)?.length ?? 0) > 3 && end < word.length
      if (!before || !(SEGMENTS.has(segment) || isLink)) continue
      if (before.length + 1 < (best[end]?.length ?? Infinity)) best[end] = [...before, segment]
    }
  }
  return best[word.length]?.filter((segment) => segment !== 's') ?? [word]
}

/**
 * Splits a name or a label into English words in lower case, whatever its convention and whichever of the vocabulary's
 * languages it is in: `work_email2`, `HQCity`, `E-Mail`, `gelöscht_am` → work email 2, hq city, email, deleted am.
 */
export function splitIdentifier(name: string): string[] {
  const known = SPLIT.get(name)
  if (known !== undefined) return [...known]
  const words = split(name)
  // Names recur in every comparison of tables; labels of rows are many, and short-lived.
  if (SPLIT.size < MAX_SPLIT) SPLIT.set(name, words)
  return [...words]
}

const SPLIT = new Map<string, readonly string[]>()
const MAX_SPLIT = 20_000

function split(name: string): string[] {
  const parts = name
    .replace(/__c$/i, '')
    .replaceAll(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1 $2')
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .replaceAll(/(\p{L})(\p{N})/gu, '$1 $2')
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '')
    .map(plain)
    .flatMap((word) => (toEnglish(word) ? [word] : segmentWord(word)))
    .flatMap((word) => toEnglish(word) ?? [word])
  const words: string[] = []
  for (const word of parts) {
    const pair = WORD_PAIRS[`${words.at(-1) ?? ''} ${word}`]
    if (pair !== undefined) words.splice(-1, 1, ...listWords(pair))
    else words.push(word)
  }
  return words
}

/** A set of words written in one text, as `splitIdentifier` gives them. */
export const toWordSet = (words: string): ReadonlySet<string> =>
  new Set(listWords(words).flatMap(splitIdentifier))

const IRREGULAR_PLURALS: Readonly<Record<string, string>> = {
  status: 'status',
  employees: 'employees',
  technologies: 'technologies',
}

/** `companies` → `company`, `addresses` → `address`. */
export function singularize(word: string): string {
  const irregular = IRREGULAR_PLURALS[word]
  if (irregular !== undefined) return irregular
  const one = stemOf(word)
  return ENGLISH.get(one)?.join(' ') ?? one
}

function stemOf(word: string): string {
  if (word.endsWith('ies') && word.length > 4) return `${word.slice(0, -3)}y`
  if (/(?:ss|x|ch|sh)es$/.test(word)) return word.slice(0, -2)
  return word.endsWith('s') && !word.endsWith('ss') && word.length > 3 ? word.slice(0, -1) : word
}

/** Whether one of the words, as written or as a singular, is one of a set. */
export const hasWord = (words: readonly string[], some: ReadonlySet<string>): boolean =>
  words.some((word) => some.has(word) || some.has(singularize(word)))

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
