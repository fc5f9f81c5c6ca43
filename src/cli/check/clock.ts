import { formatDuration } from '../../util/format.ts'
import { createFinding, type Finding } from './finding.ts'

/** Another's clock, held against this machine's. */
export interface ClockReading {
  readonly whose: 'Postgres' | 'the service'
  /** The time that it tells, in milliseconds since 1970, and how much later it may have been in truth. */
  readonly tells: number
  readonly resolutionMs: number
  /** On this machine, before it was asked and when it had answered. */
  readonly asked: number
  readonly answered: number
}

/** What is less, in milliseconds, makes no difference to anything that goes by a clock. */
const TOLERANCE_MS = 5_000

/** By how much a clock is certainly ahead of this machine's (negative: behind), in milliseconds; 0: within tolerance. */
function offsetOf({ tells, resolutionMs, asked, answered }: ClockReading): number {
  const least = tells - answered
  const most = tells + resolutionMs - asked
  if (least > TOLERANCE_MS) return least
  return most < -TOLERANCE_MS ? most : 0
}

/** Whose clock is off, as far as those that agree can tell. Pure. */
export function compareClocks(readings: readonly ClockReading[]): Finding {
  const offsets = readings.map((reading) => ({ whose: reading.whose, offset: offsetOf(reading) }))
  const off = offsets.filter(({ offset }) => offset !== 0)
  const [first, second] = off
  if (first === undefined) {
    if (readings.length === 0)
      return createFinding('clock', 'skipped', 'there is no other to hold it against')
    const others = readings.map((reading) => reading.whose).join(' and ')
    return createFinding('clock', 'ok', `agrees with ${others}`)
  }
  const beside = (against: string): string => `${first.whose} is ${inWords(first.offset)} ${against}`
  if (second !== undefined) {
    const together = Math.abs(first.offset - second.offset) <= TOLERANCE_MS
    return createFinding(
      'clock',
      'warning',
      together
        ? `this machine is ${inWords(-first.offset)} ${first.whose} and ${second.whose}`
        : `${beside('this machine')}, ${second.whose} ${inWords(second.offset)} it`,
      { todo: together ? SET.machine : SET.any },
    )
  }
  if (offsets.length === 1)
    return createFinding('clock', 'warning', beside('this machine'), { todo: SET.any })
  const other = offsets.find(({ offset }) => offset === 0)?.whose ?? ''
  return createFinding('clock', 'warning', beside(`this machine and ${other}`), { todo: SET[first.whose] })
}

const inWords = (offset: number): string =>
  `${formatDuration(Math.abs(offset))} ${offset > 0 ? 'ahead of' : 'behind'}`

const SET = {
  machine:
    'Set the clock of this machine (NTP): when a lookup is tried again, and when a schedule fires, goes by it.',
  any: 'Set the one that is wrong (NTP): leases and due dates go by Postgres, retries and schedules by this machine.',
  Postgres: 'Have the clock of the database server set (NTP): leases and due dates go by it.',
  'the service': 'Nothing to do here: what the service says of its limit is read by its own clock.',
} as const
