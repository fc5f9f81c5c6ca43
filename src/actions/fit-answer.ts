import { isObject } from '../domain/json.ts'

const EMAIL = /^[^\s@]+@[^\s@]+$/

/** The distinct addresses in a value, in their order, as texts or as names of fields. */
export const findEmails = (value: unknown): string[] => [
  ...new Set(listTexts(value).filter((text) => EMAIL.test(text))),
]

/**
 * The answer of a case about some inputs, for others: whatever names an input, at any depth of a result, names the other one,
 * and a list or an object with an entry for each input gets one for each of the others. An input that the case leaves out is
 * left out again and again. Pure.
 * @param from what names each input of the case: its email, the identifier that its acceptance gave
 * @param to the same of the others
 */
export function fitAnswer(
  body: unknown,
  from: readonly (readonly string[])[],
  to: readonly (readonly string[])[],
): unknown {
  if (from.length === 0 || to.length === 0) return body
  const known = new Set(from.flat())
  if (listTexts(body).some((text) => known.has(text))) return fitNamed(body, from, to)
  // The case about the job may be about other inputs than the case about its results.
  const named = findList(body, (list) => list.some((item) => findEmails(item).length > 0))
  if (named !== null) return fitNamed(body, toDistinctNames(named), to)
  const inOrder = findList(
    body,
    (list) => list.length === from.length && list.every((item) => typeof item === 'object'),
  )
  if (inOrder === null) return body
  return replaceValue(
    body,
    inOrder,
    to.map((_, n) => inOrder[n % inOrder.length]),
  )
}

/** A value in which each text that is an old identifier of a job is a new one, as a number where it was a number. Pure. */
export function renameJob(value: unknown, from: string, to: string): unknown {
  return mapValues(value, (one) => {
    if (typeof one === 'number' && String(one) === from) return Number(to)
    return one === from ? to : undefined
  })
}

/** Whether a text or a number in a value is this identifier. */
export const mentionsJob = (value: unknown, id: string): boolean => renameJob(value, id, '') !== value

function fitNamed(
  body: unknown,
  from: readonly (readonly string[])[],
  to: readonly (readonly string[])[],
): unknown {
  const placeOf = new Map(from.flatMap((names, place) => names.map((name) => [name, place] as const)))
  const findPlaces = (value: unknown): number[] => [
    ...new Set(listTexts(value).flatMap((text) => placeOf.get(text) ?? [])),
  ]
  const rename = (text: string, names: readonly string[]): string | undefined =>
    names[from[placeOf.get(text) ?? -1]?.indexOf(text) ?? -1]
  const renameAll = (value: unknown, names: readonly string[]): unknown =>
    mapValues(value, (one) => (typeof one === 'string' ? rename(one, names) : undefined))
  /** For each of the others, what the case has for the input in its place. */
  const spread = <Item>(
    items: readonly (readonly [place: number | null, item: Item])[],
    make: (item: Item, names: readonly string[]) => Item,
  ): Item[] => [
    ...to.flatMap((names, n) =>
      items.flatMap(([place, item]) => (place === n % from.length ? [make(item, names)] : [])),
    ),
    ...items.flatMap(([place, item]) => (place === null ? [item] : [])),
  ]
  const fitList = (list: readonly unknown[]): unknown[] => {
    const places = list.map(findPlaces)
    // An item about several inputs is no result.
    if (places.some((found) => found.length > 1) || places.every((found) => found.length === 0))
      return list.map(fit)
    const inOrder = (n: number): number | null => (list.length === from.length ? n : null)
    return spread(
      list.map((item, n) => [places[n]?.[0] ?? inOrder(n), item] as const),
      renameAll,
    )
  }
  const fit = (value: unknown): unknown => {
    if (Array.isArray(value)) return fitList(value)
    if (typeof value === 'string') return rename(value, to[placeOf.get(value) ?? -1] ?? []) ?? value
    if (!isObject(value)) return value
    const entries = Object.entries(value)
    if (!entries.some(([name]) => placeOf.has(name)))
      return Object.fromEntries(entries.map(([name, one]) => [name, fit(one)]))
    return Object.fromEntries(
      spread(
        entries.map((entry) => [placeOf.get(entry[0]) ?? null, entry] as const),
        ([name, one], names) => [rename(name, names) ?? name, renameAll(one, names)],
      ),
    )
  }
  return fit(body)
}

/** The first address of each result, where it is not that of one before. */
function toDistinctNames(list: readonly unknown[]): string[][] {
  const seen = new Set<string>()
  return list.map((item) => {
    const [email] = findEmails(item)
    if (email === undefined || seen.has(email)) return []
    seen.add(email)
    return [email]
  })
}

/** The texts in a value, and the names of its fields. */
function listTexts(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(listTexts)
  return isObject(value) ? Object.entries(value).flatMap(([name, one]) => [name, ...listTexts(one)]) : []
}

/** The outermost list with a property, the first of several. */
function findList(value: unknown, isWanted: (list: readonly unknown[]) => boolean): unknown[] | null {
  if (Array.isArray(value) && isWanted(value)) return value
  const inner = typeof value === 'object' && value !== null ? Object.values(value) : []
  for (const one of inner) {
    const found = findList(one, isWanted)
    if (found !== null) return found
  }
  return null
}

const replaceValue = (value: unknown, from: unknown, to: unknown): unknown =>
  mapValues(value, (one) => (one === from ? to : undefined))

/** A value with changes, at any depth; the same value if there is none. Undefined: no change. */
function mapValues(value: unknown, change: (one: unknown) => unknown): unknown {
  const changed = change(value)
  if (changed !== undefined) return changed
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  const mapped = entries.map(
    ([name, one]) =>
      [
        (Array.isArray(value) ? undefined : (change(name) as string | undefined)) ?? name,
        mapValues(one, change),
      ] as const,
  )
  if (mapped.every(([name, one], n) => name === entries[n]?.[0] && one === entries[n]?.[1])) return value
  return Array.isArray(value) ? mapped.map(([, one]) => one) : Object.fromEntries(mapped)
}
