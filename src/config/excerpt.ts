import { maskPasswords } from './show.ts'

const widest = 90

/** A line of a file with a caret under one of its columns; both count from 1. Null where there is no such line. */
export function excerpt(text: string, line: number, column: number | null): string | null {
  const source = text.split(/\r\n|[\n\r\u2028\u2029]/)[line - 1]
  if (source === undefined) return null
  // The part around the column of a line that is too long, of a configuration that a program wrote for instance.
  const start = Math.max(0, Math.min((column ?? 1) - 1 - widest / 2, source.length - widest))
  const shown = source.slice(start, start + widest).replace(/[\t\p{Cc}]/gu, ' ')
  const masked = maskPasswords(shown)
  const gutter = `${line} | `
  if (column === null || masked !== shown) return `${gutter}${masked.trimEnd()}`
  return `${gutter}${shown.trimEnd()}\n${' '.repeat(gutter.length + column - 1 - start)}^`
}

/** Line and column, from 1, of an offset in the text. */
export function positionOf(text: string, offset: number): { line: number; column: number } {
  const lines = text.slice(0, offset).split(/\r\n|[\n\r\u2028\u2029]/)
  return { line: lines.length, column: (lines.at(-1) ?? '').length + 1 }
}
