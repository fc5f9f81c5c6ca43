export type KeyPath = readonly PropertyKey[]

/** `sources.contacts.outputs["attributes.department"].policy`, `schedule[0].cron`. */
export function formatKeyPath(path: KeyPath): string {
  const place = path
    .map((key) => {
      if (typeof key === 'number') return `[${key}]`
      const name = String(key)
      return /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`
    })
    .join('')
    .replace(/^\./, '')
  return place === '' ? 'the configuration' : place
}

/** The value at the path, or undefined. */
export function valueAt(root: unknown, path: KeyPath): unknown {
  let value = root
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<PropertyKey, unknown>)[key]
  }
  return value
}
