/** Single calls that ended within one step of time, of any status. */
interface EndedCalls {
  /** The start of the step, in milliseconds since the epoch. */
  readonly at: number
  readonly calls: number
  /** Their durations, as groups of calls of about the same duration. */
  readonly durations: readonly { readonly ms: number; readonly calls: number }[]
}

export interface CallFacts {
  /** By time; a step may be there several times, once for each status. */
  readonly ended: readonly EndedCalls[]
  /** How long a step lasts, in milliseconds. */
  readonly stepMs: number
  /** Calls that may wait for an answer at once; null: no process calls the service. */
  readonly slots: number | null
  /** The rate limit; null: there is none, or it is unknown. */
  readonly callsPerSecond: number | null
  /** How long a call has taken on a usual day; null: unknown. */
  readonly usualMs: number | null
}

interface Step {
  readonly from: number
  readonly to: number
  calls: number
  /** Slot time that calls have taken within it, in milliseconds. */
  busyMs: number
}

interface Slowness {
  /** Milliseconds since the epoch. */
  readonly since: number
  /** What a call takes on average. */
  readonly ms: number
}

/** Slots may be idle between two calls, and durations are known by groups. */
const BUSY_SHARE = 0.5
/** A third of the throughput, and three times the duration, are no chance. */
const FAR_BELOW = 3
/** Slowness of less than this passes. */
export const MIN_SLOW_MS = 15_000
/** Less than this of a step that lasts shows nothing. */
const MIN_STEP_MS = 5_000
/** Calls are counted up to two seconds after their answer. */
const SILENCE_MS = 7_000
const MIN_CALLS = 5
/** This multiple of the calls that a slow service could answer shows that it is not slow: its slowness varies. */
const MORE = 1.5
/** Expected of a service about which nothing is known. */
const EXPECTED_MS = 1_000
/** Faster calls do not show the service: this machine decides how fast they are. */
const MIN_EXPECTED_MS = 20

/**
 * Whether the service is too slow for its limit: most slots wait for answers, and less than a third of the calls that
 * the limit and their usual duration permit are answered. Without work, and where the limit binds, slots are idle. The time of
 * calls decides and not the share of slow ones, which says little when one of two calls takes ten seconds.
 * @param now milliseconds since the epoch
 */
export function findSlowness(
  { ended, stepMs, slots, callsPerSecond, usualMs }: CallFacts,
  now: number,
): Slowness | null {
  if (slots === null) return null
  const expectedMs = Math.max(MIN_EXPECTED_MS, usualMs ?? EXPECTED_MS)
  const permitted = Math.min(callsPerSecond ?? Number.POSITIVE_INFINITY, (slots * 1_000) / expectedMs)
  const mayBeSlow = (step: Step, lengthMs: number): boolean =>
    step.calls * FAR_BELOW <= (permitted * lengthMs) / 1_000
  const slow: Step[] = []
  for (const step of toSteps(ended, stepMs, now)) {
    const lengthMs = step.to - step.from
    const isBusy = step.busyMs >= BUSY_SHARE * slots * lengthMs
    if (isBusy && lengthMs >= MIN_STEP_MS && mayBeSlow(step, lengthMs)) slow.push(step)
    // Before the first one, calls may be waiting that are not counted yet.
    else if (slow.length > 0 || !mayBeSlow(step, stepMs)) break
  }
  const [latest, first] = [slow[0], slow.at(-1)]
  if (latest === undefined || first === undefined) return null
  const groupsOf = (from: number, to: number): Groups =>
    ended.filter(({ at }) => at >= from && at < to).flatMap(({ durations }) => durations)
  const groups = groupsOf(first.from, Infinity)
  const calls = countCalls(groups)
  const ms = findMean(groups)
  const before = groupsOf(first.from, latest.from)
  const fast = groupsOf(latest.from, Infinity).filter((one) => one.ms < FAR_BELOW * expectedMs)
  const isOver =
    now - latest.to > SILENCE_MS + findMedianOfTime(groups) ||
    countCalls(fast) > MORE * countPossible(slots, now - latest.from, before)
  const isLong = latest.to - first.from >= MIN_SLOW_MS
  return isOver || !isLong || calls < MIN_CALLS || ms < FAR_BELOW * expectedMs
    ? null
    : { since: first.from, ms }
}

type Groups = EndedCalls['durations']

const countCalls = (groups: Groups): number => groups.reduce((sum, one) => sum + one.calls, 0)

const findMean = (groups: Groups): number =>
  groups.reduce((sum, one) => sum + one.ms * one.calls, 0) / Math.max(countCalls(groups), 1)

/** How many calls can end within a time if they take as long as these: each slot may have begun one of the slow ones before. */
const countPossible = (slots: number, lengthMs: number, groups: Groups): number =>
  (slots * (lengthMs + findMedianOfTime(groups))) / findMean(groups)

/** The duration of which half the time of all calls is spent in shorter ones: many fast calls do not outvote slow ones. */
function findMedianOfTime(groups: Groups): number {
  const byDuration = groups.toSorted((a, b) => a.ms - b.ms)
  const allMs = groups.reduce((sum, one) => sum + one.ms * one.calls, 0)
  let seenMs = 0
  return byDuration.find(({ ms, calls }) => (seenMs += ms * calls) * 2 >= allMs)?.ms ?? 0
}

/** The steps up to now, the latest first. The time of a call is in the steps in which it was spent. */
function toSteps(ended: readonly EndedCalls[], stepMs: number, now: number): Step[] {
  const last = Math.floor(now / stepMs) * stepMs
  const first = Math.min(last, ...ended.map(({ at }) => at))
  const steps: Step[] = []
  for (let from = last; from >= first; from -= stepMs)
    steps.push({ from, to: Math.min(now, from + stepMs), calls: 0, busyMs: 0 })
  for (const { at, calls, durations } of ended) {
    const step = steps.find(({ from }) => from === at)
    if (step === undefined) continue
    step.calls += calls
    for (const group of durations) spread(steps, (step.from + step.to) / 2, group)
  }
  return steps
}

/** Adds the time of calls that ended at about `end`. */
function spread(steps: readonly Step[], end: number, { ms, calls }: EndedCalls['durations'][number]): void {
  for (const step of steps) {
    const own = Math.min(end, step.to) - Math.max(end - ms, step.from)
    // What is shorter than a step is spent in it.
    if (own > 0) step.busyMs += own * calls
  }
}
