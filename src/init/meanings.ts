import { MEANINGS } from './vocabulary.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'

/** What a table's rows are: some flags concern only one of them. */
export type RowContext = 'person' | 'company' | 'address' | 'link'

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
  `properties property hs fivetran custom custentity custrecord attributes metadata settings extra json x cf studio should at on date time is has was been flag of from for the to by gdpr record row account user customer lead person company organization
   contact allow allows allowed admin soft hard auto automatically manually system globally permanently global requested request marked self full by
   id code number into with as opportunity deal master main guid uuid key sfid yn c x con ist seit since est esta estado e inscrit listed registered flagged am um le la el du de des del von der die das a en il da do op auf list mailings communication communications processing data`,
)

/** What a name or a label says, with the words beside it; null if it says nothing. */
export function sayingOf(words: readonly string[]): { meaning: Meaning; others: string[] } | null {
  // `do_not_call` and `no_email`, but not `no_of_calls` or the number column `phone_no`.
  const no = words.indexOf('no')
  const next = words.slice(no + 1).find((word) => !FILLERS.has(word) || word === 'contact')
  if (no !== -1 && next !== undefined && CHANNELS.has(next) && words[no + 1] !== 'of')
    return { meaning: 'objection', others: words.filter((_, n) => n !== no) }
  for (const { meaning, words: phrase } of PHRASES) {
    const at = words.findIndex((_, n) =>
      phrase.every((word, i) => words[n + i] === word || singularize(words[n + i] ?? '') === word),
    )
    if (at === -1) continue
    const others = words.filter((word, n) => (n < at || n >= at + phrase.length) && word !== 'no')
    return { meaning: no !== -1 && meaning === 'alive' ? 'gone' : meaning, others }
  }
  return null
}

/** Whether it is said of such a row: a private company is not listed, and an employee of one is no state of it. */
export const concerns = (meaning: Meaning, words: readonly string[], context: RowContext): boolean => {
  if (context === 'person') return true
  if (meaning === 'staff') return words.includes('internal')
  return meaning !== 'private' || /person|household|customer/.test(words.join(' '))
}

/** Labels that end a row's use in some companies, and in others not. */
export const DOUBTFUL = toWordSet(
  'closed lost expired terminated cancelled canceled churned former ended disqualified rejected left converted gone dropped finished dissolved bankrupt liquidated',
)

/** "Do not contact" is what a person said; "no contact" is how a call went. */
const IS_ORDER = /\b(?:do[ _-]?not|dnc|don|no \w+[aei]r|ne pas|ne plus|nicht|keine?|niet|non|n[ãa]o)(?:\b|_)/i

/** What a label says against a row. Pure. */
export function labelMeaning(label: string, context: RowContext): Meaning | null {
  // `Do not contact - written request`, `GDPR - right to be forgotten`: each part may say it.
  for (const part of label.replaceAll(/n['’]t\b/gi, ' not').split(/[,;(]|\s[-–—]\s/)) {
    const words = splitIdentifier(part)
    const isNo = words.some((word) => NEGATIONS.has(word))
    const meaning = words.length > 4 || (isNo && !IS_ORDER.test(part)) ? null : sayingOf(words)?.meaning
    if (meaning && !NOT_AGAINST.has(meaning) && concerns(meaning, words, context)) return meaning
  }
  return null
}

const NEGATIONS = toWordSet('no un never')
const NOT_AGAINST: ReadonlySet<Meaning> = new Set(['alive', 'consent', 'converted'])

/** What is said of a consent: `denied`, `No`. */
export const isRefusal = (label: string): boolean =>
  /^(?:no|refused.*|no consent)$/.test(splitIdentifier(label).join(' '))

const SUPPRESSION_WORDS =
  /\b(?:no (?:contact|call|email|mail|marketing)|blacklist|blocklist|suppression|suppressed|unsubscribed|unsubscription|opt out|objection|(?:erasure|deleted|erase|forget) request|blocked (?:list|entry|email|address|contact|domain))\b/

/** Whether a table lists people who must not be contacted: `lead_donotcontact`, `mail_blacklist`, `sperrliste`. */
export const isSuppressionName = (table: string): boolean =>
  SUPPRESSION_WORDS.test(splitIdentifier(table).map(singularize).join(' '))

const ADDRESS_TABLE_WORDS = toWordSet(
  'email mail address phone website url domain profile social link information info field mechanism mech method point detail details communication data channel',
)

const MESSAGE_WORDS = toWordSet(
  'template log message campaign event queue thread inbox inboxes history audit draft attachment folder recipient notification import',
)

/** A table of addresses, and not one of messages. */
export function isAddressTable(name: string): boolean {
  const words = splitIdentifier(name).map(singularize)
  return words.some((word) => ADDRESS_TABLE_WORDS.has(word)) && !words.some((word) => MESSAGE_WORDS.has(word))
}
