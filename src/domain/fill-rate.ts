/**
 * The share of all cells that hold a value, over the columns that were counted; null: there are none.
 * @param filled rows with a value, by column; undefined: a column that was not counted
 */
export function filledShare(eligible: number, filled: readonly (number | undefined)[]): number | null {
  const counted = filled.filter((rows) => rows !== undefined)
  const cells = eligible * counted.length
  return cells === 0 ? null : counted.reduce((sum, rows) => sum + rows, 0) / cells
}
