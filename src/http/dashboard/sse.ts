import type { ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { HOUR_MS, type DashboardData } from '../../actions/dashboard-data.ts'
import { chartData } from './pages/rate-limit.ts'
import { liveParts } from './pages/overview.ts'

const INTERVAL_MS = 1_000
/** Maximum number of pages with live updates; each costs a connection and a copy of its content. */
const MAX_PAGES = 100

/**
 * Sends changes to open pages as server-sent events: the HTML of each changed part, and the chart's data. Reads
 * nothing while no page is open.
 */
export class LiveUpdates {
  readonly #read: () => Promise<DashboardData>
  readonly #log: Logger
  /** What each page received last, by the id of the part. */
  readonly #pages = new Map<ServerResponse, Map<string, string>>()
  #timer: NodeJS.Timeout | null = null
  #isSending = false

  constructor(read: () => Promise<DashboardData>, log: Logger) {
    this.#read = read
    this.#log = log
  }

  /** Whether another page may subscribe. */
  get hasRoom(): boolean {
    return this.#pages.size < MAX_PAGES
  }

  /** Subscribes a page: its connection stays open until it leaves or the server closes. */
  subscribe(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
    response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // A buffering proxy would withhold the events.
      'x-accel-buffering': 'no',
    })
    response.write(`retry: ${INTERVAL_MS}\n\n`)
    this.#pages.set(response, new Map())
    response.on('close', () => {
      this.#pages.delete(response)
      if (this.#pages.size === 0) this.#stopTimer()
    })
    this.#timer ??= setInterval(() => void this.#sendChanges(), INTERVAL_MS).unref()
    void this.#sendChanges()
  }

  close(): void {
    this.#stopTimer()
    for (const response of this.#pages.keys()) response.end()
    this.#pages.clear()
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  async #sendChanges(): Promise<void> {
    if (this.#isSending) return
    this.#isSending = true
    try {
      const data = await this.#read()
      const parts = [...liveParts(data)].map(([id, html]) => ({
        id,
        text: html.text,
        fingerprint: withoutTimes(html.text),
      }))
      const chart = JSON.stringify(chartData(data.calls, data.readAt, HOUR_MS, data.rateLimits[0] ?? null))
      for (const [response, lastSent] of this.#pages) {
        // A page that does not drain its connection receives nothing more until it does.
        if (response.writableNeedDrain) continue
        for (const { id, text, fingerprint } of parts)
          if (lastSent.get(id) !== fingerprint) {
            lastSent.set(id, fingerprint)
            sendEvent(response, 'part', JSON.stringify({ id, html: text }))
          }
        if (lastSent.get('chart') !== chart) {
          lastSent.set('chart', chart)
          sendEvent(response, 'chart', chart)
        }
        sendEvent(response, 'beat', String(data.readAt))
      }
    } catch (error) {
      this.#log.warn({ reason: (error as Error).message }, 'failed to read dashboard data')
      for (const response of this.#pages.keys()) sendEvent(response, 'fault', 'database unavailable')
    } finally {
      this.#isSending = false
    }
  }
}

const sendEvent = (response: ServerResponse, event: string, data: string): boolean =>
  response.write(`event: ${event}\ndata: ${data}\n\n`)

/** Without relative times, which the page updates itself. */
const withoutTimes = (text: string): string => text.replaceAll(/(<time [^>]*>)[^<]*/g, '$1')
