import { createHash, createHmac, randomUUID } from 'node:crypto'
import { request } from 'undici'
import type { NotifyTarget } from '../config/config.ts'
import {
  type FillrateNotification,
  type NotificationOrigin,
  withDetails,
  type NotificationForm,
  type NotificationTopic,
  notificationDelayMs,
  notificationRetryMs,
  RETURN_DELAY_MS,
  toRunNotification,
  toRunTopic,
  toSlackText,
  toTroubleNotification,
} from '../domain/notification.ts'
import type { Trigger } from '../domain/run.ts'
import type { Trouble } from '../domain/trouble.ts'
import type { RunReport } from '../runs/report.ts'
import { logTroubleChanges } from '../runs/trouble-log.ts'
import { type ProxySettings, openProxyDispatcher } from '../service/dispatcher.ts'
import * as outbox from '../store/notifications.ts'
import type { Database } from '../store/open.ts'
import type { Tx } from '../store/transaction.ts'
import {
  type QueueNotifications,
  reportTroubles,
  type StoredTrouble,
  type TroubleChanges,
} from '../store/troubles.ts'
import type { Log } from '../util/log.ts'
import { networkErrorMeaning } from '../util/network-errors.ts'

interface NotifierOptions extends NotificationOrigin {
  readonly db: Database
  readonly targets: readonly NotifyTarget[]
  /** Default URL for targets without one. */
  readonly url: string | null
  readonly proxies?: ProxySettings | undefined
  /** Each signs, so that a receiver can change to a new one. */
  readonly secrets: readonly string[]
  readonly log: Log
}

const TIMEOUT_MS = 10_000
/** Longer than a request can take. */
const LEASE_MS = 3 * TIMEOUT_MS
const BATCH_SIZE = 20

interface Target extends NotifyTarget {
  readonly url: string
  /** A fingerprint: the URL may be a secret, and is not stored. */
  readonly key: string
  readonly host: string
}

/**
 * Sends notifications of troubles and, where a target wants them, of finished runs. A notification is stored in the
 * transaction that records its trouble or run, so that a crash loses none, and sent under a lease by one process. Only a process
 * that dies between the answer and its record causes a second attempt, with the same `event_id`.
 */
export class Notifier {
  readonly #options: NotifierOptions
  readonly #targets: ReadonlyMap<string, Target>

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

  /** Whether there is anyone to notify. */
  get hasTargets(): boolean {
    return this.#targets.size > 0
  }

  /** Queues what began and what ended. Null: there is no one to notify. */
  get queueTroubles(): QueueNotifications | null {
    return this.hasTargets ? (tx, changes) => this.#recordTroubles(tx, changes) : null
  }

  /**
   * Sends the begin of a trouble that cannot be stored, past the outbox.
   * @returns whether every target has accepted it
   */
  async tellDirectly(trouble: Trouble, eventId: string): Promise<boolean> {
    const body = toTroubleNotification(trouble, null, this.#options, { eventId, now: Date.now() })
    const targets = this.#listTargets(trouble.severity)
    const attempts = targets.map(({ key }) =>
      this.#attempt({ id: 0, token: '', attempts: 1, target: key, body, details: null }),
    )
    return (await Promise.all(attempts)).every(({ reason }) => reason === null)
  }

  async #recordTroubles(tx: Tx, { begun, ended }: TroubleChanges): Promise<void> {
    const began = await Promise.all(begun.map((trouble) => this.#toEntries(tx, trouble)))
    await outbox.enqueueNotifications(tx, began.flat())
    const over = await Promise.all(ended.map((trouble) => this.#toEntries(tx, trouble)))
    await outbox.enqueueEndNotifications(tx, over.flat())
  }

  /** Queues the end of a run, in the transaction that stores it. A failed one is a trouble. */
  async recordRun(
    tx: Tx,
    report: RunReport,
    { trigger, sources }: { readonly trigger: Trigger; readonly sources: readonly string[] },
  ): Promise<void> {
    const topic = toRunTopic(report, trigger)
    const targets = topic === null ? [] : this.#listTargets(topic)
    if (targets.length === 0) return
    const { run: id, status, reason, rows, lookups, spend, cells, duration_ms: duration } = report
    const run = {
      id,
      trigger,
      sources,
      status,
      reason,
      rows,
      lookups_requested: lookups.requested,
      cost: spend.cost,
      cells_written: cells.written,
    }
    const body = toRunNotification(run, duration, this.#options, { eventId: randomUUID(), now: Date.now() })
    await outbox.enqueueNotifications(
      tx,
      targets.map(({ key, host }) => ({ about: `run ${id}`, target: key, host, body, delayMs: 0 })),
    )
  }

  /**
   * Sends what is due, one bounded batch.
   * @returns how many were attempted
   */
  async send(): Promise<number> {
    const { db, log } = this.#options
    if (!this.hasTargets) return 0
    const lease = { limit: BATCH_SIZE, token: randomUUID(), leaseMs: LEASE_MS }
    const leased = await outbox.leaseNotifications(db, [...this.#targets.keys()], lease)
    if (leased.length === 0) return 0
    const attempts = await Promise.all(leased.map((one) => this.#attempt(one)))
    for (const one of await outbox.recordNotificationAttempts(db, attempts)) logGivenUp(log, one)
    return leased.length
  }

  /**
   * Gives up what no process can send any more, and reports targets that accept nothing as troubles.
   * @param reporter this process
   */
  async maintain(reporter: string): Promise<void> {
    const { db, log } = this.#options
    for (const one of await outbox.giveUpUnclaimed(db)) logGivenUp(log, one)
    const failing = await outbox.listFailingTargets(db)
    const changes = await reportTroubles(
      db,
      { reporter, codes: ['notification_failed'] },
      failing.map(({ host, since, reason, waiting }) => ({
        code: 'notification_failed',
        subject: host,
        since,
        details: { reason, waiting },
      })),
      this.queueTroubles,
    )
    logTroubleChanges(log, changes)
  }

  async #toEntries(tx: Tx, trouble: StoredTrouble): Promise<outbox.OutgoingNotification[]> {
    const targets = this.#listTargets(trouble.severity)
    if (targets.length === 0) return []
    const { run: id } = trouble.details
    const run = id === undefined ? null : await outbox.findNotifiedRun(tx, id)
    const body = toTroubleNotification(trouble, run, this.#options, {
      eventId: randomUUID(),
      now: Date.now(),
    })
    return targets.map(({ key, host }) => ({
      about: `trouble ${trouble.id}`,
      target: key,
      host,
      body,
      delayMs: trouble.isBack ? RETURN_DELAY_MS : notificationDelayMs(trouble.code),
    }))
  }

  #listTargets(topic: NotificationTopic): Target[] {
    return [...this.#targets.values()].filter(({ on }) => on.includes(topic))
  }

  async #attempt(notification: outbox.LeasedNotification): Promise<outbox.NotificationAttempt> {
    const { id, token, attempts, body: queued, details } = notification
    const target = this.#targets.get(notification.target)
    const retryMs = notificationRetryMs(attempts)
    if (target === undefined) return { id, token, retryMs, reason: 'the target is not configured' }
    const { log, secrets, proxies } = this.#options
    const notice = details === null ? queued : withDetails(queued, details, this.#options, Date.now())
    const { body, headers } = NOTIFICATION_FORMATS[target.form](notice, secrets)
    const reason = await postNotification(target.url, headers, body, proxies)
    // Not the URL: it may be a secret.
    if (reason !== null)
      log.warn(
        { event: 'notification_failed', about: notice.event, host: target.host, attempts, reason },
        'notification not accepted; it is sent again',
      )
    return { id, token, retryMs, reason }
  }
}

/** What is sent of a notification, by its target's form. */
const NOTIFICATION_FORMATS: Readonly<
  Record<
    NotificationForm,
    (
      notice: FillrateNotification,
      secrets: readonly string[],
    ) => { readonly body: string; readonly headers: Readonly<Record<string, string>> }
  >
> = {
  json: (notice, secrets) => {
    const body = JSON.stringify(notice)
    const now = Math.floor(Date.now() / 1_000)
    return { body, headers: signNotification(body, notice.event_id, now, secrets) }
  },
  slack: (notice) => ({ body: JSON.stringify({ text: toSlackText(notice) }), headers: {} }),
}

const logGivenUp = (log: Log, { host, event, attempts, reason }: outbox.GivenUpNotification): void =>
  log.error(
    { event: 'notification_given_up', about: event, host, attempts, reason },
    'notification given up after a day',
  )

/**
 * The headers of the Standard Webhooks specification (standardwebhooks.com, read on 2026-11-22), for which there are
 * verifiers in most languages: the signature covers the time, so that an old notification cannot be sent again.
 * @param timestamp seconds since the epoch
 */
export function signNotification(
  body: string,
  eventId: string,
  timestamp: number,
  secrets: readonly string[],
): Record<string, string> {
  const sign = (secret: string): string => {
    const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : secret
    return `v1,${createHmac('sha256', key).update(`${eventId}.${timestamp}.${body}`).digest('base64')}`
  }
  const head = { 'webhook-id': eventId, 'webhook-timestamp': String(timestamp) }
  return secrets.length === 0 ? head : { ...head, 'webhook-signature': secrets.map(sign).join(' ') }
}

/** @returns null if accepted, else the reason */
async function postNotification(
  url: string,
  headers: Record<string, string>,
  body: string,
  proxies: ProxySettings | undefined,
): Promise<string | null> {
  const dispatcher = openProxyDispatcher(url, proxies)
  try {
    const { statusCode, body: answer } = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
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
