import { fits, misfit, type Fitting } from './outcome.ts'

const iso =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*(Z|z|[+-]\d{2}(?::?\d{2})?)?)?$/

interface Moment {
  readonly date: string
  /** `HH:MM:SS`, and a fraction as it was written. Null: a day alone. */
  readonly time: string | null
  /** Minutes east of UTC; null where the text does not say. */
  readonly offset: number | null
}

/** A day, `2026-11-21`, or the day of a time as it was written. */
export function fitDate(value: unknown): Fitting {
  const moment = read(value)
  return moment === null ? misfit('not_a_date') : fits(moment.date)
}

/** A time without a zone, which holds UTC: a time of another zone is turned into it. */
export function fitTimestamp(value: unknown): Fitting {
  const utc = inUtc(read(value))
  return utc === null ? misfit('not_a_timestamp') : fits(utc)
}

/** A time with a zone. One that names none is UTC, because the service says so of its timestamps. */
export function fitTimestamptz(value: unknown): Fitting {
  const utc = inUtc(read(value))
  return utc === null ? misfit('not_a_timestamp') : fits(`${utc}Z`)
}

/** A time of day that does not exist, or a day that no calendar has, is not read. Numbers are not: seconds or years? */
function read(value: unknown): Moment | null {
  const match = typeof value === 'string' ? iso.exec(value.trim()) : null
  if (!match) return null
  const [, year = '', month = '', day = '', hour, minute = '00', second = '00', fraction, zone] = match
  const at = new Date(Date.UTC(2000, Number(month) - 1, 1))
  at.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  if (Number(year) === 0 || at.getUTCMonth() !== Number(month) - 1 || at.getUTCDate() !== Number(day))
    return null
  const date = `${year}-${month}-${day}`
  if (hour === undefined) return { date, time: null, offset: null }
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return null
  const time = `${hour}:${minute}:${second}${fraction === undefined ? '' : `.${fraction.slice(0, 6)}`}`
  const offset = zone === undefined ? null : minutesEast(zone)
  return offset !== null && Math.abs(offset) > 15 * 60 ? null : { date, time, offset }
}

function minutesEast(zone: string): number {
  if (/^z$/i.test(zone)) return 0
  const [hours = '0', minutes = '0'] = zone.slice(1).match(/\d{2}/g) ?? []
  return (Number(hours) * 60 + Number(minutes)) * (zone.startsWith('-') ? -1 : 1)
}

function inUtc(moment: Moment | null): string | null {
  if (moment === null) return null
  const time = moment.time ?? '00:00:00'
  if (!moment.offset) return `${moment.date}T${time}`
  const at = new Date(`${moment.date}T${time.slice(0, 8)}Z`)
  at.setUTCMinutes(at.getUTCMinutes() - moment.offset)
  const text = at.toISOString()
  return text.length === 24 ? text.slice(0, 19) + time.slice(8) : null
}
