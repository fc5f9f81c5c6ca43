import { html, type Html, type HtmlPart } from './html.ts'

const LIVE_ATTRIBUTE = html` data-live`
const SELECTED_ATTRIBUTE = html` selected`

export interface HtmlPageOptions {
  readonly title: string
  readonly sources: readonly string[]
  /** The page shows live data: it reloads periodically without JavaScript. */
  readonly isLive?: boolean
  /** There is a session to sign out of. */
  readonly isSignedIn?: boolean
  readonly found?: { readonly source: string; readonly key: string }
}

/** A complete page. It has no inline scripts or styles, which the Content-Security-Policy forbids. */
export function renderPage(options: HtmlPageOptions, body: HtmlPart): string {
  const { title, isLive = false } = options
  return html`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <meta name="referrer" content="same-origin" />
    ${isLive && html`<noscript><meta http-equiv="refresh" content="15" /></noscript>`}
    <title>${title} · Fillrate</title>
    <link rel="icon" href="/assets/icon.svg" type="image/svg+xml" />
    <link rel="stylesheet" href="/assets/uplot.css" />
    <link rel="stylesheet" href="/assets/board.css" />
    <script type="module" src="/assets/board.js"></script>
  </head>
  <body${isLive && LIVE_ATTRIBUTE}>
    <a class="skip" href="#main">Skip to content</a>
    <header class="top">
      <a class="brand" href="/"><svg viewBox="0 0 24 24" aria-hidden="true"><rect class="cup" x="3" y="3" width="18" height="18" rx="5" /><path class="level" d="M3 13c3-2.6 6-2.6 9 0s6 2.6 9 0v3a5 5 0 0 1-5 5H8a5 5 0 0 1-5-5z" /></svg>Fillrate</a>
      ${isLive && html`<p id="connection" role="status" class="sr">not live</p>`}
      ${rowFinder(options)}
      ${options.isSignedIn && html`<form method="post" action="/logout"><button class="quiet-button">Sign out</button></form>`}
    </header>
    <main id="main">${body}</main>
    <footer><p>Fillrate · <a href="/api/status">status as JSON</a> · <a href="/metrics">metrics</a></p></footer>
  </body>
</html>`.text
}

const rowFinder = ({ sources, found }: HtmlPageOptions): Html | null =>
  sources.length === 0
    ? null
    : html`<form class="finder" role="search" action="/row">
        <label class="sr" for="find-source">source</label>
        <select id="find-source" name="source">
          ${sources.map((name) => html`<option${name === found?.source && SELECTED_ATTRIBUTE}>${name}</option>`)}
        </select>
        <label class="sr" for="find-key">row key</label>
        <input
          id="find-key"
          name="key"
          required
          placeholder="row key"
          value="${found?.key ?? ''}"
          autocomplete="off"
          spellcheck="false"
        />
        <button>Explain</button>
      </form>`

/** Headers of every page: only our own files may load and run. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}
