import { isObject } from '../domain/json.ts'

const EMAIL = /^[^\s@]+@[^\s@]+$/

/** The distinct addresses in a value, in their order, as texts or as names of fields. */
export const findEmails = (value: unknown): string[] => [
  ...new Set(listNames(value).filter((text) => EMAIL.test(text))),
]

/** What may name an input: a text, or a number in a field of this name, which a service echoes. Null: the value is neither. */
export const nameOfLeaf = (value: unknown, field: string): string | null =>
  typeof value === 'string' ? value : typeof value === 'number' ? `#${field} ${value}` : null

const toLeaf = (name: string): string | number => {
  const number = /^#\S* (-?\d+)$/.exec(name)?.[1]
  return number === undefined ? name : Number(number)
}

/**
 * The answer of a case about some inputs, for others: whatever names an input, at any depth of a result, names the other one,
 * and a list or an object with an entry for each input gets one for each of the others. An input that the case leaves out is
 * left out again and again. Pure.
 * @param from what names each input of the case: its email, the identifier that its acceptance gave
 * @param to the same of the others, in the same order
 * @param places for each of the others the input of the case that it is like
 */
export function fitAnswer(
  body: unknown,
  from: readonly (readonly string[])[],
  to: readonly (readonly string[])[],
  places: readonly number[] = to.map((_, n) => n % from.length),
): unknown {
  if (from.length === 0 || to.length === 0) return body
  const known = new Set(from.flat().filter((name) => name !== ''))
  if (listNames(body).some((text) => known.has(text))) return fitNamed(body, from, to, places)
  // The case about the job may be about other inputs than the case about its results.
  const areEmails = from.every((names) => names.some((name) => EMAIL.test(name)))
  const named = areEmails && findList(body, (list) => list.some((item) => findEmails(item).length > 0))
  if (named)
    return fitNamed(
      body,
      toDistinctNames(named),
      to,
      to.map((_, n) => n % named.length),
    )
  const inOrder = findList(
    body,
    (list) => list.length === from.length && list.every((item) => typeof item === 'object'),
  )
  if (inOrder === null) return body
  return replaceValue(
    body,
    inOrder,
    to.map((_, n) => inOrder[places[n] ?? 0]),
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
  places: readonly number[],
): unknown {
  const placeOf = new Map(
    from.flatMap((names, place) => names.flatMap((name) => (name === '' ? [] : [[name, place] as const]))),
  )
  const findPlaces = (value: unknown, field: string): number[] => [
    ...new Set(listNames(value, field).flatMap((text) => placeOf.get(text) ?? [])),
  ]
  const rename = (text: string, names: readonly string[]): string | undefined =>
    names[from[placeOf.get(text) ?? -1]?.indexOf(text) ?? -1] || undefined
  const renameLeaf = (leaf: unknown, field: string, names: readonly string[]): unknown => {
    const name = nameOfLeaf(leaf, field)
    const renamed = name === null ? undefined : rename(name, names)
    return renamed === undefined ? undefined : toLeaf(renamed)
  }
  const renameAll = (value: unknown, names: readonly string[], field = ''): unknown =>
    mapValues(value, (one, name) => renameLeaf(one, name, names), field)
  /** For each of the others, what the case has for the input in its place. */
  const spread = <Item>(
    items: readonly (readonly [place: number | null, item: Item])[],
    make: (item: Item, names: readonly string[]) => Item,
  ): Item[] => [
    ...to.flatMap((names, n) =>
      items.flatMap(([place, item]) => (place === places[n] ? [make(item, names)] : [])),
    ),
    ...items.flatMap(([place, item]) => (place === null ? [item] : [])),
  ]
  const fitList = (list: readonly unknown[], field: string): unknown[] => {
    const found = list.map((item) => findPlaces(item, field))
    // An item about several inputs is no result.
    if (found.some((several) => several.length > 1) || found.every((none) => none.length === 0))
      return list.map((item) => fit(item, field))
    const inOrder = (n: number): number | null => (list.length === from.length ? n : null)
    return spread(
      list.map((item, n) => [found[n]?.[0] ?? inOrder(n), item] as const),
      (item, names) => renameAll(item, names, field),
    )
  }
  const fit = (value: unknown, field: string): unknown => {
    if (Array.isArray(value)) return fitList(value, field)
    const leaf = nameOfLeaf(value, field)
    if (leaf !== null) return renameLeaf(value, field, to[placeOf.get(leaf) ?? -1] ?? []) ?? value
    if (!isObject(value)) return value
    const entries = Object.entries(value)
    if (!entries.some(([name]) => placeOf.has(name)))
      return Object.fromEntries(entries.map(([name, one]) => [name, fit(one, name)]))
    return Object.fromEntries(
      spread(
        entries.map((entry) => [placeOf.get(entry[0]) ?? null, entry] as const),
        ([name, one], names) => [rename(name, names) ?? name, renameAll(one, names, name)],
      ),
    )
  }
  return fit(body, '')
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

/** The texts and numbers in a value, and the names of its fields. */
function listNames(value: unknown, field = ''): string[] {
  const leaf = nameOfLeaf(value, field)
  if (leaf !== null) return [leaf]
  if (Array.isArray(value)) return value.flatMap((one) => listNames(one, field))
  return isObject(value)
    ? Object.entries(value).flatMap(([name, one]) => [name, ...listNames(one, name)])
    : []
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
function mapValues(value: unknown, change: (one: unknown, field: string) => unknown, field = ''): unknown {
  const changed = change(value, field)
  if (changed !== undefined) return changed
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  const mapped = entries.map(
    ([name, one]) =>
      [
        (Array.isArray(value) ? undefined : (change(name, '') as string | undefined)) ?? name,
        mapValues(one, change, Array.isArray(value) ? field : name),
      ] as const,
  )
  if (mapped.every(([name, one], n) => name === entries[n]?.[0] && one === entries[n]?.[1])) return value
  return Array.isArray(value) ? mapped.map(([, one]) => one) : Object.fromEntries(mapped)
}
