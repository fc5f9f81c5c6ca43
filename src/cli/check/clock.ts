import { formatDuration } from '../../util/format.ts'
import { createFinding, type Finding } from './finding.ts'

/** A reading of another clock. */
export interface ClockReading {
  readonly whose: 'Postgres' | 'the service'
  /** The time of that clock in milliseconds since 1970, and its resolution. */
  readonly timeMs: number
  readonly resolutionMs: number
  /** This machine's clock before the request and after the response. */
  readonly sentAt: number
  readonly receivedAt: number
}

/** A smaller difference, in milliseconds, has no effect on anything. */
const TOLERANCE_MS = 5_000

/** How far a clock is at min ahead of this machine's (negative: behind), in milliseconds. 0 if within tolerance. */
function offsetOf({ timeMs, resolutionMs, sentAt, receivedAt }: ClockReading): number {
  const min = timeMs - receivedAt
  const max = timeMs + resolutionMs - sentAt
  if (min > TOLERANCE_MS) return min
  return max < -TOLERANCE_MS ? max : 0
}

/** Finds the clock that differs, if two others agree. Pure. */
export function compareClocks(readings: readonly ClockReading[]): Finding {
  const offsets = readings.map((reading) => ({ whose: reading.whose, offset: offsetOf(reading) }))
  const off = offsets.filter(({ offset }) => offset !== 0)
  const [first, second] = off
  if (first === undefined) {
    if (readings.length === 0) return createFinding('clock', 'skipped', 'no other clock to compare with')
    const others = [...new Set(readings.map((reading) => reading.whose))].join(' and ')
    return createFinding('clock', 'ok', `agrees with ${others}`)
  }
  const describeOffset = (against: string): string =>
    `${first.whose} is ${formatOffset(first.offset)} ${against}`
  if (second !== undefined) {
    const agree = Math.abs(first.offset - second.offset) <= TOLERANCE_MS
    return createFinding(
      'clock',
      'warning',
      agree
        ? `this machine is ${formatOffset(-first.offset)} ${first.whose} and ${second.whose}`
        : `${describeOffset('this machine')}, ${second.whose} ${formatOffset(second.offset)} it`,
      { todo: agree ? FIXES.machine : FIXES.any },
    )
  }
  if (offsets.length === 1)
    return createFinding('clock', 'warning', describeOffset('this machine'), { todo: FIXES.any })
  const other = offsets.find(({ offset }) => offset === 0)?.whose ?? ''
  return createFinding('clock', 'warning', describeOffset(`this machine and ${other}`), {
    todo: FIXES[first.whose],
  })
}

const formatOffset = (offset: number): string =>
  `${formatDuration(Math.abs(offset))} ${offset > 0 ? 'ahead of' : 'behind'}`

const FIXES = {
  machine: 'Synchronize the clock of this machine (NTP): retries and scheduled runs depend on it.',
  any: 'Synchronize the wrong one (NTP): leases and due dates depend on Postgres, retries and schedules on this machine.',
  Postgres: 'Synchronize the clock of the database server (NTP): leases and due dates depend on it.',
  'the service': 'Nothing to do: its rate-limit headers are read by its own clock.',
} as const
