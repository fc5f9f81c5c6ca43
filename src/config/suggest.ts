import { oneOf } from './show.ts'

const mostSuggestions = 3

/**
 * `Did you mean 'title'?`, or null when nothing is near. Near is: the same words in another order or case
 * (`firstName`, `name.first`), one more word or one less (`phone_number`, `city`), the start of it (`warning`), or a
 * slip of the fingers.
 */
export function didYouMean(word: string, candidates: readonly string[]): string | null {
  const near = nearest(word, candidates)
  return near.length === 0 ? null : `Did you mean ${oneOf(near)}?`
}

function nearest(word: string, candidates: readonly string[]): string[] {
  const scored = candidates
    .map((candidate) => ({ candidate, distance: distance(word, candidate) }))
    .filter((scored) => scored.distance <= 1)
  const best = Math.min(...scored.map((scored) => scored.distance))
  const near = scored.filter((scored) => scored.distance === best).map((scored) => scored.candidate)
  return near.length <= mostSuggestions ? near : []
}

/** 0 is the same, more than 1 too far to suggest. */
function distance(word: string, candidate: string): number {
  const [a, b] = [words(word), words(candidate)]
  const common = a.filter((one) => b.includes(one)).length
  if (common === a.length && common === b.length) return 0
  // A whole word more or less is nearer than most slips, if it is no more than one.
  const byWords = common > 0 && a.length + b.length - 2 * common <= 1 ? 0.5 : Number.POSITIVE_INFINITY
  const [short, long] = [word.toLowerCase(), candidate.toLowerCase()].sort((x, y) => x.length - y.length)
  if (short !== undefined && short.length >= 3 && long?.startsWith(short) === true)
    return Math.min(0.75, byWords)
  const edits = editDistance(word.toLowerCase(), candidate.toLowerCase())
  // When every letter is another, two short words have nothing in common.
  if (edits >= Math.min(word.length, candidate.length)) return byWords
  return Math.min(edits / Math.max(1, Math.floor(0.4 * candidate.length)), byWords)
}

function words(text: string): string[] {
  return text
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '')
}

/** Letters to insert, delete, replace or swap with their neighbour, to make one text out of the other. */
export function editDistance(from: string, to: string): number {
  let [before, previous, current]: [number[], number[], number[]] = [
    [],
    [],
    Array.from({ length: to.length + 1 }, (_, i) => i),
  ]
  for (let i = 1; i <= from.length; i++) {
    ;[before, previous, current] = [previous, current, [i]]
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1]
      let least = Math.min(at(previous, j) + 1, at(current, j - 1) + 1, at(previous, j - 1) + (same ? 0 : 1))
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1])
        least = Math.min(least, at(before, j - 2) + 1)
      current[j] = least
    }
  }
  return at(current, to.length)
}

const at = (row: readonly number[], index: number): number => row[index] ?? 0
