import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { request } from 'undici'
import type { NotifyTarget } from '../config/config.ts'
import { noticeOf, type NoticeKind } from '../domain/notice.ts'
import type { Trigger } from '../domain/run.ts'
import type { RunReport } from '../pipeline/run/report.ts'
import { openProxied, type Proxies } from '../service/proxy.ts'
import { signWebhook } from '../webhook/signature.ts'
import type { Notice } from './notice.ts'
import { slackText } from './slack-text.ts'

export interface NotifierOptions {
  readonly targets: readonly NotifyTarget[]
  /** For targets that name no address. */
  readonly url: string | null
  readonly proxies?: Proxies | undefined
  /** The first one signs. */
  readonly secrets: readonly string[]
  readonly log: Logger
  /** The waits before each further try, in milliseconds. */
  readonly retryMs?: readonly number[]
}

const RETRY_MS = [1_000, 5_000, 20_000] as const
const TIMEOUT_MS = 10_000
/** How long an ending process waits for somebody to be told. */
const CLOSE_MS = 10_000
/** More than this are not kept waiting for a target that does not answer. */
const MOST_UNDER_WAY = 20

/** Tells people of runs and jobs. Never waited for, and never fails: what can't be told is in the log. */
export class Notifier {
  readonly #options: NotifierOptions
  readonly #underWay = new Set<Promise<void>>()
  readonly #ending = new AbortController()

  constructor(options: NotifierOptions) {
    this.#options = options
  }

  /** Tells how a run ended. Of a sync only what is wrong: it ends whenever nothing has changed for a while. */
  runEnded(report: RunReport, of: { readonly trigger: Trigger; readonly sources: readonly string[] }): void {
    const event = noticeOf(report)
    if (event === null || (of.trigger === 'follow' && (event === 'completed' || event === 'no_matches')))
      return
    const { run: id, status, reason, rows, lookups, requests, cells, duration_ms } = report
    this.#tell({
      ...head(event),
      run: { id, ...of, status, reason, rows, lookups, requests, cells, duration_ms },
    })
  }

  /** Tells that jobs passed their deadline without a delivery. */
  jobsLate(late: number): void {
    this.#tell({ ...head('jobs_overdue'), jobs: { overdue: late } })
  }

  /** Waits for what is under way, for a while. */
  async close(ms = CLOSE_MS): Promise<void> {
    if (this.#underWay.size > 0)
      await Promise.race([
        Promise.all(this.#underWay),
        sleep(ms, undefined, { signal: this.#ending.signal }).catch(() => {}),
      ])
    this.#ending.abort()
    await Promise.all(this.#underWay)
  }

  #tell(notice: Notice): void {
    for (const target of this.#options.targets) {
      if (!target.on.includes(notice.event)) continue
      const url = target.url ?? this.#options.url
      if (url === null) {
        this.#options.log.warn({ event: notice.event }, 'nobody was told: FILLRATE_NOTIFY_URL is not set')
        continue
      }
      if (this.#underWay.size >= MOST_UNDER_WAY) {
        this.#options.log.warn({ event: notice.event }, 'nobody was told: too many notifications wait')
        continue
      }
      // Waited for at the end alone: whatever it fails with, an error that nothing handles would end the process.
      const task = this.#send(url, target.form, notice)
        .catch((error: unknown) =>
          this.#options.log.warn({ event: notice.event, reason: (error as Error).name }, 'nobody was told'),
        )
        .finally(() => this.#underWay.delete(task))
      this.#underWay.add(task)
    }
  }

  async #send(url: string, form: NotifyTarget['form'], notice: Notice): Promise<void> {
    const { log, secrets, proxies, retryMs = RETRY_MS } = this.#options
    const { signal } = this.#ending
    const body = JSON.stringify(form === 'slack' ? { text: slackText(notice) } : notice)
    const [secret] = secrets
    const headers = {
      'content-type': 'application/json',
      ...(form === 'json' && secret !== undefined && { 'x-webhook-signature': signWebhook(body, secret) }),
    }
    for (let attempt = 0; ; attempt++) {
      const wrong = await post(url, headers, body, { ending: signal, proxies })
      if (wrong === null) return
      const { reason, final } = wrong
      const wait = retryMs[attempt]
      if (final || wait === undefined || signal.aborted) {
        // Not the address: it may be a secret.
        log.warn({ event: notice.event, host: hostOf(url), reason }, 'nobody was told')
        return
      }
      await sleep(wait, undefined, { signal }).catch(() => {})
    }
  }
}

/** @returns null when it was taken, else why not, and whether another try makes no sense */
async function post(
  url: string,
  headers: Record<string, string>,
  body: string,
  { ending, proxies }: { readonly ending: AbortSignal; readonly proxies: Proxies | undefined },
): Promise<{ readonly reason: string; readonly final: boolean } | null> {
  const dispatcher = openProxied(url, proxies)
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

const head = (event: NoticeKind) => ({ event_id: randomUUID(), event, at: new Date().toISOString() })

/** An address that is none has no host, and what it is may be a secret. */
const hostOf = (url: string): string | null => (URL.canParse(url) ? new URL(url).host : null)
