import type { LimitUsage } from '../../../src/domain/rate-status.ts'
import type { DocumentedLimit } from '../../../src/domain/service/documented-limit.ts'
import { DocumentedLimits } from '../../../src/service/rate-limit/documented-limits.ts'
import { RateLimitModel } from '../../../src/service/rate-limit/model.ts'
import { listLearnt, prepareModel } from '../../../src/service/rate-limit/endpoint-models.ts'
import { EventQueue } from './event-queue.ts'
import { seeded } from './random.ts'
import { SimulatedService } from './service.ts'
import type { ServiceSettings } from './service.ts'
import { Timeline } from './timeline.ts'

export interface SimulationSettings {
  readonly service: ServiceSettings
  readonly seed: number
  readonly durationMs: number
  /** The work is done after this many calls, if the time is not over before. */
  readonly mostCalls: number
  /** Calls in flight at once. */
  readonly concurrency: number
  /** Milliseconds from sending to the limiter, and from there to the answer's head: from, to. */
  readonly before: readonly [number, number]
  readonly after: readonly [number, number]
  /** From a grant to the sending: the limiter's own time and the lease in Postgres. */
  readonly lag: readonly [number, number]
  /** The share of the limit that another client of the key uses, evenly. */
  readonly otherClientShare: number
  /** Whether it calls at this time, in milliseconds since the start. Default: always. */
  readonly isOtherClientCalling?: (ms: number) => boolean
  /** The share of calls whose answer is lost; half of them never arrive. */
  readonly lostShare: number
  /** When there is work: from, to in milliseconds since the start. Always, by default. */
  readonly pauses: readonly (readonly [number, number])[]
  /** Calls that become wanted, in milliseconds since the start; null: there is always more to call. */
  readonly bursts: readonly Burst[] | null
  /** Limits that are known beside those that headers state. Default: none. */
  readonly documented?: readonly DocumentedLimit[]
  /** Calls that a run before has made: one this long before the start, and the others at the start. Default: none. */
  readonly usedBefore?: { readonly calls: number; readonly ms: number }
  /** When another leader takes over, in milliseconds since the start: it knows of the limits what the one before stored. */
  readonly restarts?: readonly number[]
}

export interface Burst {
  readonly at: number
  readonly calls: number
}

export const plainSimulation: Omit<SimulationSettings, 'service'> = {
  seed: 1,
  durationMs: 60_000,
  mostCalls: 1_000_000,
  concurrency: 64,
  before: [5, 80],
  after: [15, 120],
  lag: [1, 4],
  otherClientShare: 0,
  lostShare: 0,
  pauses: [],
  bursts: null,
}

export interface Outcome {
  /** Milliseconds since the epoch, as all times of the timeline. */
  readonly startedAt: number
  /** When the last thing happened. */
  readonly endedAt: number
  readonly timeline: Timeline
  /** Calls that the service accepted, and refused. */
  readonly accepted: number
  readonly rejected: number
  readonly otherClientRejected: number
  /** When another client was said to be there, in milliseconds since the start. */
  readonly shared: readonly { readonly from: number; readonly to: number }[]
  /** The most calls that were refused in any ten seconds. */
  readonly mostRejected: number
  /** Of what the limit permitted, over the whole run and from the fourth window on. */
  readonly wholeUtilisation: number
  readonly steadyUtilisation: number
  /** The longest time in which nothing was sent although there was work, in milliseconds. */
  readonly longestSilence: number
  /** The same, counted from the arrival of the work if that was later. */
  readonly longestWait: number
  /** Work was left, but nothing was in flight or scheduled. */
  readonly isDeadlocked: boolean
  readonly model: RateLimitModel
}

/** Not on a whole second, so that rounding shows. */
const start = Date.UTC(2026, 0, 1, 12, 0, 0, 317)

/** Plays the model against a service in virtual time. */
export function simulate(settings: SimulationSettings): Outcome {
  const random = seeded(settings.seed)
  const between = ([from, to]: readonly [number, number]): number => from + random() * (to - from)
  const queue = new EventQueue(start)
  const service = new SimulatedService(settings.service, start, random)
  const { documented = [], restarts = [], usedBefore } = settings
  if (usedBefore !== undefined) service.useBefore(usedBefore.calls, start - usedBefore.ms, start)
  let model = new RateLimitModel()
  const createLimits = (usage: LimitUsage | null): DocumentedLimits => {
    const options = { limits: documented, usage }
    const created: DocumentedLimits = new DocumentedLimits(
      options,
      queue.now,
      () => {},
      () => listLearnt([[null, model]], created),
    )
    prepareModel([null, model], created, usage?.learnt ?? [], queue.now)
    return created
  }
  let limits = createLimits(null)
  /** Calls of leaders that are gone: their answers reach nobody. */
  let leader = 0
  let sent = 0
  let isDead = false
  const timeline = new Timeline(start)
  const end = start + settings.durationMs
  let inFlight = 0
  const rejectedAt: number[] = []
  let otherClientRejected = 0
  const shared: { from: number; to: number }[] = []
  let longestSilence = 0
  let longestWait = 0
  let lastSent = start
  /** Since then there is work without a pause; null while there is none. */
  let workSince: number | null = null
  let lookAt = Number.POSITIVE_INFINITY
  const acceptedAt: number[] = []
  const windowStarts: number[] = []

  const wanted = createWanted(settings, () => queue.now - start)
  const hasWork = (): boolean =>
    sent + model.calls.granted < wanted() &&
    !settings.pauses.some(([from, to]) => queue.now >= start + from && queue.now < start + to)

  function pump(): void {
    const now = queue.now
    model.onDemand(hasWork() || model.calls.hasPending, now)
    workSince = hasWork() ? (workSince ?? now) : null
    if (now >= end || !hasWork()) return
    const left = wanted() - sent - model.calls.granted
    const room = limits.grantable(null, now)
    const count = Math.min(settings.concurrency - inFlight, left, model.grantable(now), room)
    if (count > 0) {
      longestWait = Math.max(longestWait, now - Math.max(lastSent, workSince ?? now))
      model.grant(count, now)
      limits.grant(null, count)
      inFlight += count
      const lag = between(settings.lag)
      const sender = leader
      for (let index = 0; index < count; index++)
        queue.at(now + lag + index * 0.05, () => {
          if (sender === leader) send()
        })
    }
    const isPaced = limits.grantable(null, now) < 1
    const nextAt = isPaced ? limits.nextAt(null, now) : model.nextCheckAt(now)
    const next = inFlight < settings.concurrency ? nextAt : null
    if (next === null) return
    const at = Math.max(now + 0.5, next)
    if (at >= lookAt && lookAt > now) return
    lookAt = at
    queue.at(at, () => {
      if (lookAt === at) lookAt = Number.POSITIVE_INFINITY
      pump()
    })
  }

  /** The process is killed, and another one takes over some seconds later. */
  function restart(): void {
    const usage: LimitUsage = structuredClone(limits.usage(queue.now, 0))
    const killedAt = queue.now
    const takeOverMs = 6_000
    if (isDead) return
    isDead = true
    leader++
    model = new RateLimitModel()
    inFlight = settings.concurrency
    queue.at(killedAt + takeOverMs, () => {
      const windows = usage.windows.map((window) => ({
        ...window,
        calls: window.calls.map(([ageMs, calls]) => [ageMs + takeOverMs, calls] as const),
      }))
      limits = createLimits({ ...usage, windows })
      isDead = false
      inFlight = 0
      pump()
    })
  }

  function send(): void {
    const sender = leader
    const call = model.sent(queue.now)
    sent++
    const label = timeline.sent(call.order, queue.now)
    longestSilence = Math.max(longestSilence, queue.now - lastSent)
    lastSent = queue.now
    const isLost = random() < settings.lostShare
    const arrives = !isLost || random() < 0.5
    queue.at(queue.now + between(settings.before), () => {
      if (!arrives) return
      const arrival = service.arrive(queue.now)
      timeline.arrived(label, queue.now, arrival)
      if (arrival.status === 429) rejectedAt.push(queue.now)
      if (arrival.verdict?.accepted === true) {
        acceptedAt.push(queue.now)
        if (arrival.verdict.window > windowStarts.length) windowStarts.push(queue.now)
      }
      if (isLost) return
      queue.at(queue.now + between(settings.after), () => {
        timeline.answered(label, queue.now)
        if (sender !== leader) return
        model.answered(call, arrival, queue.now)
        noteShared()
        limits.complete(null, queue.now)
        inFlight--
        pump()
      })
    })
    if (!isLost) return
    queue.at(queue.now + 3000, () => {
      timeline.lost(label, queue.now)
      if (sender !== leader) return
      model.lost(call, queue.now)
      limits.complete(null, queue.now)
      inFlight--
      pump()
    })
  }

  function noteShared(): void {
    const ms = queue.now - start
    const last = shared.at(-1)
    if (last?.to === Infinity && !model.isShared) last.to = ms
    if (last?.to !== Infinity && model.isShared) shared.push({ from: ms, to: Infinity })
  }

  function otherClientCall(): void {
    if (queue.now >= end) return
    const { limit, windowMs } = settings.service
    const isCalling = settings.isOtherClientCalling?.(queue.now - start) ?? true
    const arrival = isCalling ? service.arrive(queue.now) : null
    if (arrival?.status === 429) otherClientRejected++
    if (arrival?.verdict && arrival.verdict.window > windowStarts.length) windowStarts.push(queue.now)
    queue.at(queue.now + (windowMs / (limit * settings.otherClientShare)) * (0.5 + random()), otherClientCall)
  }

  if (settings.otherClientShare > 0) queue.at(start + 1, otherClientCall)
  for (const [, to] of settings.pauses) queue.at(start + to, pump)
  for (const { at } of settings.bursts ?? []) queue.at(start + at, pump)
  for (const at of restarts) queue.at(start + at, restart)
  queue.at(start, pump)
  let isDeadlocked = false
  while (!queue.isEmpty) queue.step()
  const isDone = sent >= wanted()
  if (queue.now < end && settings.otherClientShare === 0 && !isDone) isDeadlocked = true

  return {
    startedAt: start,
    endedAt: queue.now,
    timeline,
    accepted: acceptedAt.length,
    rejected: rejectedAt.length,
    otherClientRejected,
    shared,
    mostRejected: mostWithin(rejectedAt, 10_000),
    ...(settings.bursts === null
      ? utilisation(settings, service, acceptedAt, windowStarts, end)
      : ofLastBurst(settings, settings.bursts, acceptedAt)),
    longestSilence: Math.max(longestSilence, Math.min(end, queue.now) - lastSent),
    longestWait,
    isDeadlocked,
    model,
  }
}

/** The largest number of these moments, in order, within `ms` milliseconds. */
function mostWithin(moments: readonly number[], ms: number): number {
  let first = 0
  return moments.reduce((most, at, index) => {
    while ((moments[first] ?? at) <= at - ms) first++
    return Math.max(most, index - first + 1)
  }, 0)
}

/** How many calls are wanted in all by now. */
function createWanted({ bursts, mostCalls }: SimulationSettings, elapsed: () => number): () => number {
  if (bursts === null) return () => mostCalls
  let begun = 0
  let calls = 0
  return () => {
    for (let burst = bursts[begun]; burst !== undefined && burst.at <= elapsed(); burst = bursts[++begun])
      calls += burst.calls
    return calls
  }
}

/** How fast the last burst was done, of what the limit permits in that time. */
function ofLastBurst(
  { service: { limit, windowMs } }: SimulationSettings,
  bursts: readonly Burst[],
  acceptedAt: readonly number[],
): { wholeUtilisation: number; steadyUtilisation: number } {
  const from = start + (bursts.at(-1)?.at ?? 0)
  const accepted = acceptedAt.filter((at) => at >= from).length
  const took = (acceptedAt.at(-1) ?? from) - from
  return { wholeUtilisation: ((accepted / limit) * windowMs) / took, steadyUtilisation: Number.NaN }
}

/** What was accepted, of what the limit permitted: from a window's start to another's if there are windows. */
function utilisation(
  { service: { limit, windowMs } }: SimulationSettings,
  service: SimulatedService,
  acceptedAt: readonly number[],
  windowStarts: readonly number[],
  end: number,
): { wholeUtilisation: number; steadyUtilisation: number } {
  const share = (from: number, to: number): number => {
    const used = acceptedAt.filter((at) => at >= from && at < to).length
    const changeAt = service.settings.change === null ? to : start + service.settings.change.afterMs
    const before = Math.max(0, Math.min(to, changeAt) - from)
    const after = Math.max(0, to - Math.max(from, changeAt))
    return used / ((limit * before + service.limitAt(end) * after) / windowMs)
  }
  const hasWindows = windowStarts.length > 0
  const from = hasWindows ? windowStarts[3] : start + 3 * windowMs
  const to = hasWindows ? windowStarts.at(-1) : end
  return {
    wholeUtilisation: share(start, hasWindows ? (to ?? end) : end),
    steadyUtilisation: from === undefined || to === undefined || from >= to ? Number.NaN : share(from, to),
  }
}
