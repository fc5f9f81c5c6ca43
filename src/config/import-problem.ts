import { readFileSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'
import { excerpt } from './excerpt.ts'
import { pathOfFrame, readingMark } from './import-module.ts'
import type { Problem } from './problems.ts'
import { maskPasswords } from './show.ts'

/** What stopped a configuration module from loading, with the line where the error tells it. */
export function importProblem(error: unknown, path: string): Problem {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : `a throw of ${String(error)}`
  const at = error instanceof Error ? locate(error.stack ?? '', path) : null
  const line = at === null ? null : excerpt(read(at.path), at.line, at.column)
  return {
    place: at === null ? path : `${at.path}:${at.line}${at.column === null ? '' : `:${at.column}`}`,
    found: clean(message) + (line === null ? '' : `\n${line}`),
    expected: 'a module that loads and exports a configuration by default',
    todo: advise(error),
  }
}

interface Place {
  readonly path: string
  readonly line: number
  readonly column: number | null
}

/** Syntax errors put the place, the line and a caret before the stack; other errors have frames. */
function locate(stack: string, path: string): Place | null {
  const [head = '', ...rest] = stack.split('\n')
  const before = /^(file:\/\/.+|\/.+|[A-Za-z]:\\.+):(\d+)$/.exec(head)
  if (before !== null) {
    const caret = rest.slice(0, rest.indexOf('')).find((line) => /^\s*\^+\s*$/.test(line))
    return place(before, caret === undefined ? null : caret.indexOf('^') + 1)
  }
  for (const line of rest) {
    const frame = /(file:\/\/[^\s()]+|\/[^()]+|[A-Za-z]:\\[^()]+):(\d+):(\d+)\)?$/.exec(line)
    if (frame !== null && (line.includes(`?${readingMark}=`) || line.includes(path)))
      return place(frame, Number(frame[3]))
  }
  return null
}

const place = ([, frame = '', line = '']: readonly string[], column: number | null): Place => ({
  path: pathOfFrame(frame),
  line: Number(line),
  column,
})

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function clean(message: string): string {
  const unmarked = message.replaceAll(new RegExp(String.raw`\?${readingMark}=\d+`, 'g'), '')
  // A message may hold colours, or whatever else a terminal obeys.
  return maskPasswords(stripVTControlCharacters(unmarked).replace(/[^\P{Cc}\n]/gu, ''))
}

function advise(error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null
  switch (code) {
    case 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX':
      return 'Node runs TypeScript by leaving its types out: write the configuration without enums, namespaces and parameter properties.'
    case 'ERR_MODULE_NOT_FOUND':
      return "A file is imported by its whole name, './tables.ts'; a package must be installed beside the configuration."
    default:
      return null
  }
}
