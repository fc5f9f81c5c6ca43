import { describeError } from '../../util/error-text.ts'
import type { ServerResponse } from 'node:http'
import type { Log } from '../../util/log.ts'
import { type Cached, cached } from '../../util/cached.ts'
import type { Html } from './html.ts'
import { retryLogLevel } from '../../store/connectivity.ts'
import type { DatabaseOutage } from '../../domain/condition.ts'
import { outageSection } from './pages/verdict.ts'

const INTERVAL_MS = 1_000
/** Maximum number of pages with live updates; each costs a connection and a copy of its content. */
const MAX_PAGES = 100

/** What a page shows now, by the id of the element that each part replaces. */
export type LiveContent = Html['parts']

interface LiveUpdateOptions {
  /** What this process knows of an outage. */
  readonly outage: () => DatabaseOutage | null
  readonly log: Log
}

/** One address of the dashboard that is open in browsers. */
interface Topic {
  readonly read: Cached<LiveContent>
  /** What each page received last, by the id of the part. */
  readonly pages: Map<ServerResponse, Map<string, string>>
  isSending: boolean
}

/**
 * Sends changes to open pages as server-sent events: the HTML of each changed part. Pages of the same address share one read, and nothing is read for an address that is not open.
 */
export class LiveUpdates {
  readonly #options: LiveUpdateOptions
  readonly #topics = new Map<string, Topic>()
  #timer: NodeJS.Timeout | null = null

  constructor(options: LiveUpdateOptions) {
    this.#options = options
  }

  /** Whether another page may subscribe. */
  get hasRoom(): boolean {
    return [...this.#topics.values()].reduce((sum, topic) => sum + topic.pages.size, 0) < MAX_PAGES
  }

  /**
   * Subscribes a page: its connection stays open until it leaves or the server closes.
   * @param read what it shows
   */
  subscribe(
    address: string,
    read: () => Promise<LiveContent>,
    response: ServerResponse,
    headers: Readonly<Record<string, string>>,
  ): void {
    response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // A buffering proxy would withhold the events.
      'x-accel-buffering': 'no',
    })
    response.write(`retry: ${INTERVAL_MS}\n\n`)
    const topic: Topic = this.#topics.get(address) ?? {
      read: cached(read),
      pages: new Map<ServerResponse, Map<string, string>>(),
      isSending: false,
    }
    this.#topics.set(address, topic)
    topic.pages.set(response, new Map())
    response.on('close', () => {
      topic.pages.delete(response)
      if (topic.pages.size === 0) this.#topics.delete(address)
      if (this.#topics.size === 0) this.#stopTimer()
    })
    this.#timer ??= setInterval(() => {
      for (const one of this.#topics.values()) void this.#sendChanges(one)
    }, INTERVAL_MS).unref()
    void this.#sendChanges(topic)
  }

  /** Makes all open pages read again: something was changed. */
  invalidate(): void {
    for (const topic of this.#topics.values()) topic.read.invalidate()
  }

  close(): void {
    this.#stopTimer()
    for (const topic of this.#topics.values()) for (const response of topic.pages.keys()) response.end()
    this.#topics.clear()
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  async #sendChanges(topic: Topic): Promise<void> {
    if (topic.isSending) return
    topic.isSending = true
    try {
      const parts = await topic.read()
      const changes = [...parts].map(([id, text]) => ({
        id,
        fingerprint: withoutTimes(text),
        data: () => JSON.stringify({ id, html: text }),
      }))
      for (const [response, lastSent] of topic.pages) {
        // A page that does not drain its connection receives nothing more until it does.
        if (response.writableNeedDrain) continue
        for (const { id, fingerprint, data } of changes)
          if (lastSent.get(id) !== fingerprint) {
            lastSent.set(id, fingerprint)
            sendEvent(response, 'part', data())
          }
        sendEvent(response, 'beat', String(Date.now()))
      }
    } catch (error) {
      this.#options.log[retryLogLevel(error)](
        { event: 'dashboard_data_failed', reason: describeError(error) },
        'failed to read dashboard data',
      )
      const outage = outageSection(error, this.#options.outage(), Date.now())
      for (const [response, lastSent] of topic.pages) {
        // The verdict says why; everything else is as it was read last.
        if (outage !== null && lastSent.get('verdict') !== withoutTimes(outage.text)) {
          lastSent.set('verdict', withoutTimes(outage.text))
          sendEvent(response, 'part', JSON.stringify({ id: 'verdict', html: outage.text }))
        }
        sendEvent(response, 'fault', 'no data')
      }
    } finally {
      topic.isSending = false
    }
  }
}

const sendEvent = (response: ServerResponse, event: string, data: string): boolean =>
  response.write(`event: ${event}\ndata: ${data}\n\n`)

/** Without relative times, which the page updates itself. */
const withoutTimes = (text: string): string => text.replaceAll(/(<time [^>]*>)[^<]*/g, '$1')
