/** A number out of a run's totals, which an older version may have stored in another shape: null where it is not there. */
export function totalIn(totals: unknown, part: string, name?: string): number | null {
  const inPart = isObject(totals) ? totals[part] : undefined
  const value = name === undefined ? inPart : isObject(inPart) ? inPart[name] : undefined
  return typeof value === 'number' ? value : null
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null
