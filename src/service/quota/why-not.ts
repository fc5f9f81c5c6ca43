import type { QuotaState } from './state.ts'

/** What the words are made from. */
export interface Standstill {
  readonly state: QuotaState
  /** When it may go on, on our clock; null where only an answer can tell. */
  readonly at: number | null
  readonly now: number
  /** Calls are on their way. */
  readonly isMoving: boolean
  /** Calls were refused, and not only those of a process before this one were feared to have used the window up. */
  readonly wasRefused: boolean
  /** The limit was cut, and more may be counted than it allows. */
  readonly wasCut: boolean
}

/** Why nothing is granted, in words. */
export function whyNot({ state, at, now, isMoving, wasRefused, wasCut }: Standstill): string {
  const until = at === null || at < now ? '' : untilText(at)
  switch (state) {
    case 'banned':
      return `the service bans the key for a while, because it was called too often (403 after 429): left alone${until}, then tried with one call`
    case 'cooldown':
      return wasRefused
        ? `the service refused a call (429) and is left alone${until}`
        : wasCut
          ? `the limit was cut, and what was called before is waited out${until}`
          : `the process that called before may have used the limit up${until}`
    case 'cold':
    case 'unlimited':
      return 'the first answers are awaited before more is asked'
    case 'calibrating':
      return `the limit is used up${until}, and how long its window is has to be found out`
    case 'fixed_window':
      return isMoving && until === ''
        ? 'the first answer of a new window is awaited'
        : `the window is used up${until}`
    case 'sliding':
      return `the limit is used up; a call is free again when an earlier one has grown old${until}`
  }
}

/** Beyond the calendar there is no time to name. */
function untilText(at: number): string {
  const date = new Date(at)
  return Number.isNaN(date.getTime()) ? '' : ` until ${date.toISOString().slice(11, 19)} UTC`
}
