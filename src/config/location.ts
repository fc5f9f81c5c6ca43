import { maskPasswords } from '../util/text.ts'

const MAX_FRAME_WIDTH = 90

/** A line of a file with a caret under one of its columns, both counted from 1. Null if there is no such line. */
export function codeFrame(text: string, line: number, column: number | null): string | null {
  const source = text.split(/\r\n|[\n\r\u2028\u2029]/)[line - 1]
  if (source === undefined) return null
  // Of a long line, as in generated files, only the part around the column.
  const start = Math.max(
    0,
    Math.min((column ?? 1) - 1 - MAX_FRAME_WIDTH / 2, source.length - MAX_FRAME_WIDTH),
  )
  const shown = source.slice(start, start + MAX_FRAME_WIDTH).replace(/[\t\p{Cc}]/gu, ' ')
  const masked = maskPasswords(shown)
  const gutter = `${line} | `
  if (column === null || masked !== shown) return `${gutter}${masked.trimEnd()}`
  return `${gutter}${shown.trimEnd()}\n${' '.repeat(gutter.length + column - 1 - start)}^`
}

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
