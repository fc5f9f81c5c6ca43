import type { Paint } from './paint.ts'

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'] as const

/** A share (0 to 1) as blocks, exact to an eighth of a column. What is not nothing shows at least a sliver. */
export function blocks(share: number, columns: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * columns * 8)
  const shown = share > 0 ? Math.max(1, eighths) : 0
  return '█'.repeat(Math.floor(shown / 8)) + (EIGHTHS[shown % 8] ?? '')
}

/** A bar on its track. It is full only when the share is 1. */
export function bar(share: number, columns: number, paint: Paint): string {
  const most = share < 1 ? columns - 1 / 8 : columns
  const filled = blocks(Math.min(share, most / columns), columns)
  return paint('bar', filled) + paint('quiet', '░'.repeat(columns - filled.length))
}
