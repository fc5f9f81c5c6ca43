import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { request } from 'undici'
import type { NotifyTarget } from '../config/config.ts'
import { type NotificationKind, type Trigger, toNotificationKind } from '../domain/run.ts'
import type { RunReport } from '../runs/report.ts'
import { type ProxySettings, openProxyDispatcher } from '../service/dispatcher.ts'
import { signWebhook } from '../webhook/signature.ts'

export interface NotifierOptions {
  readonly targets: readonly NotifyTarget[]
  /** Default URL for targets without one. */
  readonly url: string | null
  readonly proxies?: ProxySettings | undefined
  /** The first one signs. */
  readonly secrets: readonly string[]
  readonly log: Logger
  /** Delays before each retry, in milliseconds. */
  readonly retryMs?: readonly number[]
}

const RETRY_DELAYS_MS = [1_000, 5_000, 20_000] as const
const TIMEOUT_MS = 10_000
/** How long a shutdown waits for pending notifications. */
const CLOSE_TIMEOUT_MS = 10_000
/** Maximum number of notifications waiting for a slow target. */
const MAX_PENDING = 20

/** Notifies people of runs and jobs. Never blocks and never throws: failures are logged. */
export class Notifier {
  readonly #options: NotifierOptions
  readonly #pending = new Set<Promise<void>>()
  readonly #ending = new AbortController()

  constructor(options: NotifierOptions) {
    this.#options = options
  }

  /**
   * Notifies of a finished run. For a `sync` run only of problems: it ends whenever nothing has changed for a while.
   */
  runEnded(report: RunReport, of: { readonly trigger: Trigger; readonly sources: readonly string[] }): void {
    const event = toNotificationKind(report)
    if (event === null || (of.trigger === 'follow' && (event === 'completed' || event === 'no_matches')))
      return
    const { run: id, status, reason, rows, lookups, requests, cells, duration_ms } = report
    this.#notify({
      ...notificationHead(event),
      run: { id, ...of, status, reason, rows, lookups, requests, cells, duration_ms },
    })
  }

  /** Notifies of jobs that passed their deadline without a delivery. */
  jobsOverdue(late: number): void {
    this.#notify({ ...notificationHead('jobs_overdue'), jobs: { overdue: late } })
  }

  /** Waits for pending notifications, for a while. */
  async close(ms = CLOSE_TIMEOUT_MS): Promise<void> {
    if (this.#pending.size > 0)
      await Promise.race([
        Promise.all(this.#pending),
        sleep(ms, undefined, { signal: this.#ending.signal }).catch(() => {}),
      ])
    this.#ending.abort()
    await Promise.all(this.#pending)
  }

  #notify(notice: RunNotification): void {
    for (const target of this.#options.targets) {
      if (!target.on.includes(notice.event)) continue
      const url = target.url ?? this.#options.url
      if (url === null) {
        this.#options.log.warn(
          { event: notice.event },
          'notification dropped: FILLRATE_NOTIFY_URL is not set',
        )
        continue
      }
      if (this.#pending.size >= MAX_PENDING) {
        this.#options.log.warn({ event: notice.event }, 'notification dropped: too many are pending')
        continue
      }
      // Awaited only on close, so every error must be handled here: an unhandled rejection would end the process.
      const task = this.#send(url, target.form, notice)
        .catch((error: unknown) =>
          this.#options.log.warn(
            { event: notice.event, reason: (error as Error).name },
            'notification failed',
          ),
        )
        .finally(() => this.#pending.delete(task))
      this.#pending.add(task)
    }
  }

  async #send(url: string, form: NotifyTarget['form'], notice: RunNotification): Promise<void> {
    const { log, secrets, proxies, retryMs = RETRY_DELAYS_MS } = this.#options
    const { signal } = this.#ending
    const body = JSON.stringify(form === 'slack' ? { text: toSlackText(notice) } : notice)
    const [secret] = secrets
    const headers = {
      'content-type': 'application/json',
      ...(form === 'json' && secret !== undefined && { 'x-webhook-signature': signWebhook(body, secret) }),
    }
    for (let attempt = 0; ; attempt++) {
      const wrong = await postNotification(url, headers, body, { ending: signal, proxies })
      if (wrong === null) return
      const { reason, final } = wrong
      const wait = retryMs[attempt]
      if (final || wait === undefined || signal.aborted) {
        // Not the URL: it may be a secret.
        log.warn({ event: notice.event, host: urlHost(url), reason }, 'notification failed')
        return
      }
      await sleep(wait, undefined, { signal }).catch(() => {})
    }
  }
}

/** @returns null if accepted, else the reason, and whether a retry is pointless */
async function postNotification(
  url: string,
  headers: Record<string, string>,
  body: string,
  { ending, proxies }: { readonly ending: AbortSignal; readonly proxies: ProxySettings | undefined },
): Promise<{ readonly reason: string; readonly final: boolean } | null> {
  const dispatcher = openProxyDispatcher(url, proxies)
  try {
    const signal = AbortSignal.any([ending, AbortSignal.timeout(TIMEOUT_MS)])
    const answer = await request(url, {
      method: 'POST',
      headers,
      body,
      signal,
      ...(dispatcher && { dispatcher }),
    })
    await answer.body.dump()
    const { statusCode } = answer
    if (statusCode < 300) return null
    const final = statusCode < 500 && statusCode !== 408 && statusCode !== 429
    return { reason: `HTTP ${statusCode}`, final }
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    return { reason: code ?? message, final: false }
  } finally {
    await dispatcher?.destroy()
  }
}

const notificationHead = (event: NotificationKind) => ({
  event_id: randomUUID(),
  event,
  at: new Date().toISOString(),
})

/** The host of a URL; null for an invalid one, which may be a secret. */
const urlHost = (url: string): string | null => (URL.canParse(url) ? new URL(url).host : null)

/** The body of a notification in its JSON form. */
export type RunNotification = {
  /** The same in every attempt, so that a receiver can drop duplicates. */
  readonly event_id: string
  readonly event: NotificationKind
  readonly at: string
} & (
  | { readonly run: NotifiedRun; readonly jobs?: never }
  | { readonly jobs: { readonly overdue: number }; readonly run?: never }
)

export interface NotifiedRun extends Pick<
  RunReport,
  'status' | 'reason' | 'rows' | 'lookups' | 'requests' | 'cells' | 'duration_ms'
> {
  readonly id: number
  readonly trigger: Trigger
  readonly sources: readonly string[]
}

const numberFormat = new Intl.NumberFormat('en-US')

/** A notification as one line of text. Pure. */
export function toSlackText(notice: RunNotification): string {
  if (notice.run === undefined) {
    const { overdue: late } = notice.jobs
    const jobs = late === 1 ? '1 job was' : `${numberFormat.format(late)} jobs were`
    return `:warning: Fillrate: ${jobs} not delivered in time. Their emails are looked up one by one.`
  }
  const { run } = notice
  const what = `run ${run.id} (${run.trigger}, ${run.sources.join(', ')})`
  return `${ICONS[notice.event]} Fillrate: ${what} ${OUTCOMES[notice.event](run)}`
}

const ICONS: Readonly<Record<NotificationKind, string>> = {
  completed: ':white_check_mark:',
  no_matches: ':information_source:',
  budget_reached: ':moneybag:',
  failed: ':x:',
  jobs_overdue: ':warning:',
}

const enrichedText = ({ rows, lookups }: NotifiedRun): string =>
  `enriched ${numberFormat.format(rows.enriched)} of ${numberFormat.format(rows.picked)} rows with ${numberFormat.format(lookups.requested)} lookups`

const OUTCOMES: Readonly<Record<NotificationKind, (run: NotifiedRun) => string>> = {
  completed: (run) => `${enrichedText(run)}.`,
  no_matches: (run) => `enriched no rows: ${numberFormat.format(run.rows.picked)} were picked.`,
  budget_reached: (run) => `reached its budget: it ${enrichedText(run)}. ${run.reason ?? ''}`.trimEnd(),
  failed: (run) => `failed: ${run.reason ?? 'no reason given'}. It ${enrichedText(run)} before.`,
  jobs_overdue: () => '',
}
