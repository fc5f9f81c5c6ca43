/** Safe HTML, created by `html` only. */
export class Html {
  readonly text: string
  /** The HTML of the elements in it that live updates replace, by their id. */
  readonly parts: ReadonlyMap<string, string>
  constructor(text: string, parts: ReadonlyMap<string, string>) {
    this.text = text
    this.parts = parts
  }
  toString(): string {
    return this.text
  }
}

/** Interpolated values. Text is escaped; null, undefined and false render nothing. */
export type HtmlPart = Html | string | number | null | undefined | false | readonly HtmlPart[]

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escapeHtml = (text: string): string => text.replaceAll(/[&<>"']/g, (one) => ENTITIES[one] ?? one)

function render(part: HtmlPart, parts: Map<string, string>): string {
  if (part instanceof Html) {
    for (const [id, one] of part.parts) parts.set(id, one)
    return part.text
  }
  if (part === null || part === undefined || part === false) return ''
  if (typeof part === 'object') return part.map((one) => render(one, parts)).join('')
  return escapeHtml(String(part))
}

/** Template tag that escapes everything except `Html`. Attribute values must be quoted. */
export function html(texts: TemplateStringsArray, ...values: readonly HtmlPart[]): Html {
  const parts = new Map<string, string>()
  return new Html(texts.map((text, n) => text + render(values[n], parts)).join(''), parts)
}

/** An element that live updates replace whole; if it holds others that they replace, only those. */
export const livePart = (id: string, { text, parts }: Html): Html =>
  new Html(text, parts.size > 0 ? parts : new Map([[id, text]]))

/** Shows nothing, until a live update has something to show there. */
export const hiddenPart = (id: string): Html => livePart(id, html`<div id="${id}" hidden></div>`)

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
