import { isObject } from '../domain/json.ts'
import type { JobInput } from '../domain/service/messages.ts'
import { nameOfLeaf } from './fit-answer.ts'

/** What names each input of a case's job, and of another one, by the same places of what was sent for it; '': nothing. */
export interface AlignedJobs {
  readonly from: readonly (readonly string[])[]
  readonly to: readonly (readonly string[])[]
  /** For each input of the other job one of the case that is sent in the same form. */
  readonly places: readonly number[]
}

/**
 * Finds the inputs of a job in its body, by the body that the case's own inputs make: the list with an item for each of
 * them. Null: the request is another one.
 */
export function alignJobs(
  sentForCase: unknown,
  inputs: readonly JobInput[],
  sent: unknown,
): AlignedJobs | null {
  const path = findListPath(sentForCase, inputs)
  const template = path && (valueAtPath(sentForCase, path) as readonly unknown[])
  const items = path && valueAtPath(sent, path)
  if (!template || !Array.isArray(items) || items.length === 0) return null
  const leaves = [template, items as readonly unknown[]].map((list) =>
    list.map((item) => listLeaves(item, '', '')),
  )
  const [own = [], others = []] = leaves
  const places = [...new Set([...own, ...others].flatMap((one) => [...one.keys()]))].filter((place) => {
    // What every item has alike names none of them.
    const values = new Set([...own, ...others].map((one) => one.get(place)))
    return values.size > 1
  })
  const toNames = (job: readonly ReadonlyMap<string, string>[]): string[][] =>
    job.map((one) => places.map((place) => one.get(place) ?? ''))
  const from = toNames(own)
  const count = (name: string): number => from.filter((names) => names.includes(name)).length
  const toForm = (one: ReadonlyMap<string, string> | undefined): string => [...(one?.keys() ?? [])].join()
  return {
    from: from.map((names) => names.map((name) => (count(name) > 1 ? '' : name))),
    to: toNames(others),
    places: others.map((one, n) => {
      const alike = own.flatMap((other, at) => (toForm(other) === toForm(one) ? [at] : []))
      return alike[n % Math.max(1, alike.length)] ?? n % own.length
    }),
  }
}

/** The way to the first list that has an item for each input. */
function findListPath(value: unknown, inputs: readonly JobInput[]): readonly (string | number)[] | null {
  if (Array.isArray(value) && value.length === inputs.length) {
    const isForInput = (item: unknown, n: number): boolean => mentions(item, inputs[n] ?? {})
    if (value.every(isForInput)) return []
  }
  const inner = Array.isArray(value) ? [...value.entries()] : isObject(value) ? Object.entries(value) : []
  for (const [name, one] of inner) {
    const path = findListPath(one, inputs)
    if (path !== null) return [name, ...path]
  }
  return null
}

/** Whether a part of an input is sent in a value: a name may be cut, and the scheme of an address left out. */
function mentions(value: unknown, input: JobInput): boolean {
  const texts = [...listLeaves(value, '', '').values()].map((text) => text.toLowerCase())
  return Object.values(input).some((part: string) =>
    texts.some((text) => text.length > 1 && part.toLowerCase().includes(text)),
  )
}

/** The texts and numbers in a value by their place. */
function listLeaves(value: unknown, place: string, name: string): Map<string, string> {
  const leaf = nameOfLeaf(value, name)
  if (leaf !== null) return new Map([[place, leaf]])
  const inner = Array.isArray(value)
    ? value.map((one, n) => listLeaves(one, `${place}/${n}`, name))
    : isObject(value)
      ? Object.entries(value).map(([key, one]) => listLeaves(one, `${place}/${key}`, key))
      : []
  return new Map(inner.flatMap((one) => [...one]))
}

const valueAtPath = (value: unknown, path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>(
    (at, step) => (at as Record<string | number, unknown> | null | undefined)?.[step],
    value,
  )
