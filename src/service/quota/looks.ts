/** One call of a look: when it is to be sent, in milliseconds since the epoch, and of which look it is. */
export interface Try {
  readonly at: number
  readonly look: number
}

/**
 * The calls that a plan's looks take. Where headers are missing a look takes several, one after the other until an
 * answer tells something. In a long window there is time for an answer between two of them; the last look of several
 * comes when the window may just have ended, and goes on after its moment, and those before it come before theirs, so
 * that the old window is still there. In a short window all of a look come at once.
 * @param looks their moments, the earliest first
 * @param copies how many calls a look may take
 * @param length of the window, as it is tried, in milliseconds
 */
export function triesOf(looks: readonly number[], copies: number, length: number): Try[] {
  return looks.flatMap((moment, look) => {
    const isLast = look === looks.length - 1
    const apart = length < long ? 1 : isLast ? soonAfter : answered
    const first = length < long || isLast ? moment : moment - (copies - 1) * apart
    return Array.from({ length: copies }, (_, index) => ({ at: first + index * apart, look }))
  })
}

/** In milliseconds. From here on windows are multiples of half a second, so a look need not be as exact. */
const long = 5000

/** Most answers have come after so long. */
const answered = 120

/** A window that has ended is lost time: the next call does not wait for the answer. */
const soonAfter = 40
