import { MEANINGS } from './vocabulary.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'

/**
 * What a table's rows are: some flags concern only one of them. An employer's name is of use until the row is deleted.
 */
export type RowContext = 'person' | 'company' | 'address' | 'link' | 'employer'

/** What a flag or a label says of a row. */
export type Meaning = keyof typeof MEANINGS

const PHRASES = (Object.entries(MEANINGS) as Array<[Meaning, string]>).flatMap(([meaning, phrases]) =>
  phrases.split('|').map((phrase) => ({ meaning, words: phrase.trim().split(/\s+/) })),
)

export const CHANNELS = toWordSet(
  `email mail call phone contact contacted sms text fax letter marketing newsletter campaign bulk mailing all track trade share
   sell send postal profiling commercial channel whatsapp gdpr enrich enrichment lookup`,
)

export const FILLERS = toWordSet(
  `properties property hs fivetran custom attributes metadata settings extra json x cf studio should at on date time is has was been flag of from for the to by gdpr record row account user customer lead person company organization
   contact allow allows allowed admin soft hard auto automatically manually system globally permanently global requested request marked self full by
   id code number into with as opportunity deal master main guid uuid key sfid yn c x con ist seit since est esta estado e inscrit listed registered flagged am um le la el du de des del von der die das a en il da do op auf list mailings communication communications processing data`,
)

/** The first meaning whose phrase occurs in a name, with the words beside it; null if there is none. */
export function sayingOf(words: readonly string[]): { meaning: Meaning; others: string[] } | null {
  // `do_not_call` and `no_email`, but not `no_of_calls` or the number column `phone_no`.
  const no = words.indexOf('no')
  const next = words.slice(no + 1).find((word) => !FILLERS.has(word) || word === 'contact')
  if (no !== -1 && next !== undefined && CHANNELS.has(next) && words[no + 1] !== 'of')
    return { meaning: 'objection', others: words.filter((_, n) => n !== no) }
  for (const { meaning, words: phrase } of PHRASES) {
    const at = words.findIndex((_, n) => phrase.every((word, i) => words[n + i] === word))
    if (at === -1) continue
    const others = [...words.slice(0, at), ...words.slice(at + phrase.length)]
    return {
      meaning: no !== -1 && meaning === 'alive' ? 'gone' : meaning,
      others: others.filter((word) => word !== 'no'),
    }
  }
  return null
}

/** Labels that end a row's use in some companies, and in others not. */
export const DOUBTFUL = toWordSet(
  'closed lost expired terminated cancelled canceled churned former ended disqualified rejected left converted gone dropped finished dissolved bankrupt liquidated',
)

const NEGATIONS = toWordSet('no un never')

/** "Do not contact" is what a person said; "no contact" is how a call went. */
const REFUSED =
  /\b(?:do[\s_-]?not|don['’]?t|never)[\s_-]*(?:contact|call|e-?mail|mail|disturb)|^dnc$|^no[\s_-](?:contactar|llamar|molestar|enviar)|^ne[\s_-](?:pas|plus)[\s_-]|^(?:bitte[\s_-])?(?:nicht|keine?)[\s_-](?:kontakt|anruf|anschreiben|werbung|mail)|^niet[\s_-](?:bellen|benaderen|mailen)|^non[\s_-]contattare|^n[ãa]o[\s_-]contact/i

/** What a label says of a row. Pure. */
export function labelMeaning(label: string, context: RowContext): Meaning | null {
  if (REFUSED.test(label.trim())) return 'objection'
  // `Do not contact - written request`, `GDPR - right to be forgotten`: each part may say it.
  for (const part of label.split(/[,;(]|\s[-–—]\s/)) {
    const meaning = partMeaning(splitIdentifier(part), context)
    if (meaning !== null) return meaning
  }
  return null
}

function partMeaning(words: readonly string[], context: RowContext): Meaning | null {
  if (words.length > 4 || words.some((word) => NEGATIONS.has(word))) return null
  const found = PHRASES.find(({ words: phrase }) =>
    words.some((_, n) =>
      phrase.every((word, i) => words[n + i] === word || singularize(words[n + i] ?? '') === word),
    ),
  )?.meaning
  if (found === undefined || found === 'alive' || found === 'consent' || found === 'converted') return null
  if (context !== 'company') return found
  // A private company is one that is not listed, and an employee of one is no state of it.
  if (found === 'staff') return words.includes('internal') ? found : null
  return found === 'private' && !/person|household|customer/.test(words.join(' ')) ? null : found
}

/** What is said of a consent: `denied`, `No`. */
export const isRefusal = (label: string): boolean =>
  /^(?:no|refused.*|no consent)$/.test(splitIdentifier(label).join(' '))
