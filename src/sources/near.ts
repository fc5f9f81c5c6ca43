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

function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, i) => i)
  for (let i = 1; i <= from.length; i++) {
    const current = [i]
    for (let j = 1; j <= to.length; j++) {
      const change = from[i - 1] === to[j - 1] ? 0 : 1
      const [left = 0, up = 0, corner = 0] = [current[j - 1], previous[j], previous[j - 1]]
      current.push(Math.min(left + 1, up + 1, corner + change))
    }
    previous = current
  }
  return previous.at(-1) ?? 0
}
