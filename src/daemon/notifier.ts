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
  /** For targets that name no address. */
  readonly url: string | null
  readonly proxies?: ProxySettings | undefined
  /** The first one signs. */
  readonly secrets: readonly string[]
  readonly log: Logger
  /** The waits before each further try, in milliseconds. */
  readonly retryMs?: readonly number[]
}

const RETRY_DELAYS_MS = [1_000, 5_000, 20_000] as const
const TIMEOUT_MS = 10_000
/** How long an ending process waits for somebody to be told. */
const CLOSE_TIMEOUT_MS = 10_000
/** More than this are not kept waiting for a target that does not answer. */
const MAX_PENDING = 20

/** Tells people of runs and jobs. Never waited for, and never fails: what can't be told is in the log. */
export class Notifier {
  readonly #options: NotifierOptions
  readonly #pending = new Set<Promise<void>>()
  readonly #ending = new AbortController()

  constructor(options: NotifierOptions) {
    this.#options = options
  }

  /** Tells how a run ended. Of a sync only what is wrong: it ends whenever nothing has changed for a while. */
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

  /** Tells that jobs passed their deadline without a delivery. */
  jobsOverdue(late: number): void {
    this.#notify({ ...notificationHead('jobs_overdue'), jobs: { overdue: late } })
  }

  /** Waits for what is under way, for a while. */
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
        this.#options.log.warn({ event: notice.event }, 'nobody was told: FILLRATE_NOTIFY_URL is not set')
        continue
      }
      if (this.#pending.size >= MAX_PENDING) {
        this.#options.log.warn({ event: notice.event }, 'nobody was told: too many notifications wait')
        continue
      }
      // Waited for at the end alone: whatever it fails with, an error that nothing handles would end the process.
      const task = this.#send(url, target.form, notice)
        .catch((error: unknown) =>
          this.#options.log.warn({ event: notice.event, reason: (error as Error).name }, 'nobody was told'),
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
        // Not the address: it may be a secret.
        log.warn({ event: notice.event, host: urlHost(url), reason }, 'nobody was told')
        return
      }
      await sleep(wait, undefined, { signal }).catch(() => {})
    }
  }
}

/** @returns null when it was taken, else why not, and whether another try makes no sense */
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
    return { reason: `it was answered ${statusCode}`, final }
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

/** An address that is none has no host, and what it is may be a secret. */
const urlHost = (url: string): string | null => (URL.canParse(url) ? new URL(url).host : null)

/** The body of a notification in its JSON form. */
export type RunNotification = {
  /** The same in every try, so that a receiver can drop repeats. */
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

/** A notification in one line, as a person reads it. Pure. */
export function toSlackText(notice: RunNotification): string {
  if (notice.run === undefined) {
    const { overdue: late } = notice.jobs
    const jobs = late === 1 ? '1 job was' : `${numberFormat.format(late)} jobs were`
    return `:warning: Fillrate: ${jobs} not delivered in time. The inputs are asked one by one.`
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
  `enriched ${numberFormat.format(rows.enriched)} of ${numberFormat.format(rows.picked)} rows and asked ${numberFormat.format(lookups.requested)} lookups`

const OUTCOMES: Readonly<Record<NotificationKind, (run: NotifiedRun) => string>> = {
  completed: (run) => `${enrichedText(run)}.`,
  no_matches: (run) => `enriched nothing: ${numberFormat.format(run.rows.picked)} rows were picked.`,
  budget_reached: (run) => `reached its budget: it ${enrichedText(run)}. ${run.reason ?? ''}`.trimEnd(),
  failed: (run) => `failed: ${run.reason ?? 'without a reason'}. It ${enrichedText(run)} before.`,
  jobs_overdue: () => '',
}
