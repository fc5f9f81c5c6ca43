import { singularize, splitIdentifier, toWordSet } from './words.ts'

const SUPPRESSION_WORDS =
  /\b(?:no (?:contact|call|email|mail|marketing)|blacklist|blocklist|suppression|suppressed|unsubscribed|unsubscription|opt out|objection|(?:erasure|deleted|erase|forget) request|blocked (?:list|entry|email|address|contact|domain))\b/

/** Whether a table lists people who must not be contacted: `lead_donotcontact`, `mail_blacklist`, `sperrliste`. */
export const isSuppressionName = (table: string): boolean =>
  SUPPRESSION_WORDS.test(splitIdentifier(table).map(singularize).join(' '))

const ADDRESS_TABLE_WORDS = toWordSet(
  'email mail address phone website url domain profile social link information info field mechanism method point detail details communication data channel',
)

const MESSAGE_WORDS = toWordSet(
  'template log message campaign event queue thread inbox inboxes history audit draft attachment folder recipient notification import',
)

/** A table of addresses, and not one of messages. */
export function isAddressTable(name: string): boolean {
  const words = splitIdentifier(name).map(singularize)
  return words.some((word) => ADDRESS_TABLE_WORDS.has(word)) && !words.some((word) => MESSAGE_WORDS.has(word))
}
