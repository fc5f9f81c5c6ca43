/** The candidate that a slip of the fingers, another case or another separator turns into `word`; or null. */
export function nearest(word: string, candidates: readonly string[]): string | null {
  let best: string | null = null
  let least = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const distance = plain(word) === plain(candidate) ? 0 : editDistance(word, candidate)
    if (distance < least && distance <= Math.max(1, Math.floor(candidate.length / 3))) {
      best = candidate
      least = distance
    }
  }
  return best
}

/** ` Did you mean 'title'?`, with a blank before it, or nothing. */
export function didYouMean(word: string, candidates: readonly string[]): string {
  const near = nearest(word, candidates)
  return near === null ? '' : ` Did you mean '${near}'?`
}

/** A list for a message, cut where it grows long. */
export function listed(names: readonly string[]): string {
  const most = 12
  const shown = names.slice(0, most).join(', ')
  return names.length > most ? `${shown} and ${names.length - most} more` : shown
}

const plain = (word: string): string => word.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '')

/** Letters to insert, delete, replace or swap with their neighbour. */
function editDistance(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= from.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= to.length; j++) {
      const changed = at(rows, i - 1, j - 1) + (from[i - 1] === to[j - 1] ? 0 : 1)
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      const swapped = isSwap ? at(rows, i - 2, j - 2) + 1 : changed
      row.push(Math.min(at(rows, i, j - 1) + 1, at(rows, i - 1, j) + 1, changed, swapped))
    }
  }
  return at(rows, from.length, to.length)
}

const at = (rows: readonly number[][], i: number, j: number): number => rows[i]?.[j] ?? 0
