import type { Source } from '../sources/source.ts'

export const isTouchColumn = (source: Source, column: string): boolean =>
  source.touches.some((touch) => touch.column === column)

/** Sorts columns as the configuration lists them; a change stores them in jsonb's own order. */
export function sortByConfig(source: Source, columns: readonly string[]): string[] {
  const configured = [...source.outputs, ...source.touches].map((cell) => cell.column)
  const place = (column: string): number => {
    const at = configured.indexOf(column)
    return at === -1 ? configured.length : at
  }
  return columns.toSorted((a, b) => place(a) - place(b))
}
