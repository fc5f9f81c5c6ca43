import type { FillrateNotification } from '../domain/report/notification.ts'
import { createHash, randomUUID } from 'node:crypto'
import { request } from 'undici'
import type { NotifyTarget } from '../config/config.ts'
import type { Condition } from '../domain/condition.ts'
import {
  findDueEvent,
  type NotificationForm,
  notificationRetryMs,
  toConditionNotification,
  toSlackText,
} from '../domain/notification.ts'
import { type ProxySettings, openProxyDispatcher } from '../service/dispatcher.ts'
import { listNotable, noteAccepted } from '../store/conditions.ts'
import type { Database } from '../store/open.ts'
import { readDatabaseTime } from '../store/scheduled-runs.ts'
import { acquireLease, releaseLease } from '../store/rate-limits.ts'
import type { Log } from '../util/log.ts'
import { networkErrorMeaning } from '../util/network-errors.ts'

interface NotifierOptions {
  /** The address of the dashboard, without a trailing slash. */
  readonly dashboardUrl: string | null
  /** Identifies this process; unique for each start. */
  readonly owner: string
  readonly targets: readonly NotifyTarget[]
  /** Default URL for targets without one. */
  readonly url: string | null
  readonly proxies?: ProxySettings | undefined
  readonly log: Log
}

const TIMEOUT_MS = 10_000
/** One process notifies. Longer than a request can take. */
const LEASE_SCOPE = 'notify'
const LEASE_MS = 3 * TIMEOUT_MS
/** Longer than a process takes to store what it has notified of, once Postgres is back. */
const HANDOVER_MS = 15_000

interface Target extends NotifyTarget {
  readonly url: string
  /** A fingerprint: the URL may be a secret, and is not stored. */
  readonly key: string
  readonly host: string
}

/** What is to be sent to one target, and where it is noted that the target has accepted it. */
interface DueNotice {
  readonly target: Target
  readonly body: FillrateNotification
  readonly note: () => Promise<void>
}

/**
 * Sends notifications of conditions. What a target has not accepted is found in the row of the condition, so that a crash loses none,
 * and is sent by one process, which holds a lease. Only a process that dies between the answer and its
 * note causes a second attempt, with the same `event_id`.
 */
export class Notifier {
  readonly #options: NotifierOptions
  readonly #targets: ReadonlyMap<string, Target>
  /** By target: the attempts in a row that it has not accepted, and when the next one is due by `performance.now()`. */
  readonly #failures = new Map<string, { readonly attempts: number; readonly nextAt: number }>()

  /** Of its lease. */
  readonly #token = randomUUID()
  /**
   * From and until when it notifies, as far as its lease says: of an outage that began at another time, another process notifies.
   * Milliseconds since the epoch; null: another one was found to notify. A process that has just started does not know.
   */
  #span: { readonly since: number; readonly until: number } | null = {
    since: 0,
    until: Number.POSITIVE_INFINITY,
  }

  constructor(options: NotifierOptions) {
    this.#options = options
    const targets = new Map<string, Target>()
    for (const target of options.targets) {
      const url = target.url ?? options.url
      if (url === null) continue
      const key = createHash('sha256').update(`${target.form} ${url}`).digest('hex').slice(0, 12)
      // One address may be listed twice, with other topics.
      const on = [...(targets.get(key)?.on ?? []), ...target.on]
      targets.set(key, { ...target, on, url, key, host: new URL(url).host })
    }
    this.#targets = targets
  }

  /**
   * Sends what is due, unless another process does. A target that does not accept one is tried again later.
   * @returns how many were accepted
   */
  async send(db: Database): Promise<number> {
    const { owner } = this.#options
    if (this.#targets.size === 0) return 0
    const now = Date.now()
    const isHeld = await acquireLease(db, LEASE_SCOPE, this.#token, owner, LEASE_MS)
    // Where its lease has run out before, another process may have notified since.
    const since = this.#span !== null && this.#span.until >= now ? this.#span.since : Date.now()
    this.#span = isHeld ? { since, until: now + LEASE_MS } : null
    if (!isHeld) return 0
    const due = await this.#listDue(db)
    const accepted = [...this.#targets.values()].map(async (target) => {
      let count = 0
      for (const { body, note } of due.filter((message) => message.target === target)) {
        if (!(await this.#attempt(target, body))) break
        await note()
        count++
      }
      return count
    })
    return (await Promise.all(accepted)).reduce((sum, count) => sum + count, 0)
  }

  /** Lets another process notify at once. */
  async release(db: Database): Promise<void> {
    if (this.#targets.size > 0 && this.#span !== null) await releaseLease(db, LEASE_SCOPE, this.#token)
    this.#span = null
  }

  /**
   * Sends the begin of an outage that cannot be stored.
   * @param acceptedBy what its record will say: `began KEY` of each target that has accepted it
   * @returns the same of the targets that have accepted it now
   */
  async notifyOfOutage(outage: Condition, acceptedBy: readonly string[]): Promise<string[]> {
    const since = outage.since.getTime()
    if (this.#span === null || since < this.#span.since || since > this.#span.until) return []
    const condition = { ...outage, id: 0, endedAt: null, acceptedBy }
    const now = Date.now()
    const body = toConditionNotification(condition, this.#options.dashboardUrl, now)
    const accepted = [...this.#targets.values()]
      .filter((target) => findDueEvent(condition, target, now) === 'began')
      .map(async (target) => ((await this.#attempt(target, body)) ? [`began ${target.key}`] : []))
    return (await Promise.all(accepted)).flat()
  }

  async #listDue(db: Database): Promise<DueNotice[]> {
    const now = await readDatabaseTime(db)
    return (await listNotable(db)).flatMap((condition) =>
      [...this.#targets.values()].flatMap((target) => {
        const event = findDueEvent(condition, target, now)
        if (event === null || (event === 'began' && this.#mayBeKnown(condition))) return []
        const body = toConditionNotification(condition, this.#options.dashboardUrl, now)
        return [{ target, body, note: () => noteAccepted(db, condition.id, [`${event} ${target.key}`]) }]
      }),
    )
  }

  /** Of an outage that began before this process notified, another one may have sent the begin, and stores that at its next look. */
  #mayBeKnown({ kind, since }: Condition): boolean {
    const from = this.#span?.since ?? 0
    return kind === 'database_away' && since.getTime() < from && Date.now() - from < HANDOVER_MS
  }

  /** @returns whether the target has accepted it. One that has not is left alone for a while. */
  async #attempt(target: Target, notice: FillrateNotification): Promise<boolean> {
    const failed = this.#failures.get(target.key)
    if (failed !== undefined && performance.now() < failed.nextAt) return false
    const { log, proxies } = this.#options
    const body = JSON.stringify(NOTIFICATION_FORMATS[target.form](notice))
    // Set beforehand: two at a time would be one too many.
    const attempts = (failed?.attempts ?? 0) + 1
    this.#failures.set(target.key, {
      attempts,
      nextAt: performance.now() + TIMEOUT_MS + notificationRetryMs(attempts),
    })
    const reason = await postNotification(target.url, body, proxies)
    if (reason === null) {
      this.#failures.delete(target.key)
      return true
    }
    this.#failures.set(target.key, { attempts, nextAt: performance.now() + notificationRetryMs(attempts) })
    // Not the URL: it may be a secret.
    log.warn(
      { event: 'notification_failed', about: notice.event, host: target.host, attempts, reason },
      'notification not accepted; it is sent again for a day',
    )
    return false
  }
}

/** What is sent of a notification, by its target's form. */
const NOTIFICATION_FORMATS: Readonly<Record<NotificationForm, (notice: FillrateNotification) => object>> = {
  json: (notice) => notice,
  slack: (notice) => ({ text: toSlackText(notice) }),
}

/** @returns null if accepted, else the reason */
async function postNotification(
  url: string,
  body: string,
  proxies: ProxySettings | undefined,
): Promise<string | null> {
  const dispatcher = openProxyDispatcher(url, proxies)
  try {
    const { statusCode, body: answer } = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(dispatcher && { dispatcher }),
    })
    await answer.dump()
    return statusCode < 300 ? null : `HTTP ${statusCode}`
  } catch (error) {
    const { code, message, name } = error as { code?: unknown; message: string; name: string }
    if (name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1_000} s`
    return typeof code === 'string' ? (networkErrorMeaning(code) ?? code) : message
  } finally {
    await dispatcher?.destroy()
  }
}
