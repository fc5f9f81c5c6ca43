/** Safe HTML, created by `html` only. */
export class Markup {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
  toString(): string {
    return this.text
  }
}

/** Interpolated values. Text is escaped; null, undefined and false render nothing. */
export type HtmlPart = Markup | string | number | null | undefined | false | readonly HtmlPart[]

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escapeHtml = (text: string): string => text.replaceAll(/[&<>"']/g, (char) => ENTITIES[char] ?? char)

function render(part: HtmlPart): string {
  if (part instanceof Markup) return part.text
  if (part === null || part === undefined || part === false) return ''
  if (typeof part === 'object') return part.map(render).join('')
  return escapeHtml(String(part))
}

/** Template tag that escapes everything except `Html`. Attribute values must be quoted. */
export const html = (texts: TemplateStringsArray, ...values: readonly HtmlPart[]): Markup =>
  new Markup(texts.map((text, n) => text + render(values[n])).join(''))

/** A URL with an encoded query; null values are omitted. */
export function buildUrl(path: string, query: Readonly<Record<string, string | null | undefined>>): string {
  const given = Object.entries(query).filter(
    (entry): entry is [string, string] => entry[1] !== null && entry[1] !== undefined,
  )
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`
}

/** The page of one row. */
export const rowUrl = ({ source, key }: { readonly source: string; readonly key: string }): string =>
  buildUrl('/row', { source, key })

/** The page of a source. */
export const sourceUrl = (name: string): string => `/sources/${encodeURIComponent(name)}`
