import type { z } from 'zod'
import { type KeyPath, valueAt } from './location.ts'
import type { ConfigSchema } from './schema.ts'

/** Each round removes at least one fault, and a removed option may make the next one visible. */
const MAX_ROUNDS = 50

/** In place of a field that is wrong: its column can still be checked. The expression keeps its type out of the checks. */
const PLACEHOLDER_OUTPUT = { field: 'unknown', unlisted: true, sql: 'null' }

/**
 * The valid part of a configuration with problems, so that `fillrate check` can compare it with the database in the same
 * answer. Invalid options are left out, invalid fields and inputs replaced by ones that find nothing, and a source whose
 * table or kind is invalid is left out. Null if nothing is left. Never used to run anything.
 */
export function salvageConfig(value: unknown, schema: ConfigSchema): z.output<ConfigSchema> | null {
  const root = { config: copy(value) }
  for (let round = 0; round < MAX_ROUNDS && root.config !== undefined; round++) {
    const parsed = schema.safeParse(root.config)
    if (parsed.success) return parsed.data
    for (const issue of parsed.error.issues) removeFault(root, issue)
  }
  return null
}

/** No option is deeper. A configuration from code may contain itself. */
const MAX_DEPTH = 10

/** Objects and lists are copied, because parts of them are removed. */
function copy(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null || value instanceof RegExp || depth > MAX_DEPTH)
    return value
  if (Array.isArray(value)) return value.map((item) => copy(item, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, copy(inner, depth + 1)]))
}

type Container = Record<PropertyKey, unknown>

function removeFault(root: { config: unknown }, issue: z.core.$ZodIssue): void {
  const path: KeyPath = ['config', ...issue.path]
  if (issue.code === 'unrecognized_keys') {
    for (const key of issue.keys) remove(root, [...path, key])
    return
  }
  const [, sources, source, part, name, option] = path
  if (sources !== 'sources' || source === undefined) remove(root, path)
  else if (part === 'outputs' && name !== undefined && (option === undefined || option === 'field'))
    replace(root, path.slice(0, 5), PLACEHOLDER_OUTPUT)
  else if (part === 'inputs' && valueAt(root, path) === undefined)
    replace(root, path.slice(0, 4), isCompany(root, path) ? { domain: 'null' } : { email: 'null' })
  else remove(root, path)
}

const isCompany = (root: object, path: KeyPath): boolean =>
  valueAt(root, [...path.slice(0, 3), 'kind']) === 'company'

/** Puts a placeholder there, or removes the place if the placeholder is invalid too. */
function replace(root: object, path: KeyPath, placeholder: object): void {
  const parent = valueAt(root, path.slice(0, -1))
  const key = path.at(-1)
  if (key === undefined || typeof parent !== 'object' || parent === null) return
  if (JSON.stringify((parent as Container)[key]) === JSON.stringify(placeholder)) remove(root, path)
  else (parent as Container)[key] = placeholder
}

/** Removes the value there; if there is none, what requires it. */
function remove(root: object, path: KeyPath): void {
  const parent = valueAt(root, path.slice(0, -1))
  const key = path.at(-1)
  if (key === undefined || typeof parent !== 'object' || parent === null) return
  if (!Object.hasOwn(parent, key) || (parent as Container)[key] === undefined) remove(root, path.slice(0, -1))
  else if (Array.isArray(parent)) parent.splice(Number(key), 1)
  else Reflect.deleteProperty(parent, key)
}
