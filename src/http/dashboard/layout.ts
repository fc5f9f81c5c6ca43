import { html, type Markup, type HtmlPart } from './html.ts'

/** Where a page is: its path, and the pages of the navigation, each with its name. */
export interface PagePlace {
  readonly path: string
  readonly entries: ReadonlyArray<{ readonly path: string; readonly name: string }>
}

interface HtmlPageOptions {
  readonly title: string
  /** Missing: it is beside the pages (errors). */
  readonly place?: PagePlace
  /** Its script shows it anew every few seconds; without JavaScript, it reloads now and then. */
  readonly isLive?: boolean
}

/** A complete page. It has no inline scripts or styles, which the Content-Security-Policy forbids. */
export function renderPage(options: HtmlPageOptions, body: HtmlPart): string {
  const { title, place, isLive = false } = options
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
    <link rel="stylesheet" href="/assets/board.css" />
    <script type="module" src="/assets/board.js"></script>
  </head>
  <body${isLive && html` data-live`}>
    <a class="skip" href="#main">Skip to content</a>
    <header class="top">
      <div class="bar-row">
        <a class="brand" href="/"><svg viewBox="0 0 24 24" aria-hidden="true"><rect class="cup" x="3" y="3" width="18" height="18" rx="5" /><path class="level" d="M3 13c3-2.6 6-2.6 9 0s6 2.6 9 0v3a5 5 0 0 1-5 5H8a5 5 0 0 1-5-5z" /></svg>Fillrate</a>
        ${isLive && html`<p id="connection" role="status" class="sr">not live</p>`}
        ${place !== undefined && ZONE_CHOICE}
      </div>
      ${place !== undefined && navigation(place)}
    </header>
    <main id="main">${body}</main>
    ${
      place !== undefined &&
      html`<footer>
        <p><a href="/api/status">Status as JSON</a> · <a href="/metrics">Metrics</a></p>
      </footer>`
    }
  </body>
</html>`.text
}

const navigation = (place: PagePlace): Markup =>
  html`<nav aria-label="Pages">
    <ul>
      ${place.entries.map(
        ({ path, name }) =>
          html`<li><a href="${path}" ${isWithin(place, path) && html` aria-current="page"`}>${name}</a></li>`,
      )}
    </ul>
  </nav>`

const isWithin = ({ path }: PagePlace, entry: string): boolean =>
  path === entry || (entry !== '/' && path.startsWith(`${entry}/`))

/** Shown by the page's script: without it, all times are in UTC. */
const ZONE_CHOICE = html`<div id="zone" class="zone" role="group" aria-label="Time zone of all times" hidden>
  <button type="button" data-zone="utc" aria-pressed="true">UTC</button>
  <button type="button" data-zone="local" aria-pressed="false">Local</button>
</div>`

/** Headers of every page: only our own files may load and run. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}
