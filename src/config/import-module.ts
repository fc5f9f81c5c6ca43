import { createRequire, registerHooks } from 'node:module'
import { extname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import type { Problem } from './problems.ts'
import { maskPasswords } from '../util/text.ts'

/** Marks the URLs of one load, so that the next load bypasses Node's module cache. */
const RELOAD_PARAMETER = 'fillrate-read'

/** The entry of this package: `src/index.ts` in a checkout, `dist/src/index.js` when installed. */
const PACKAGE_ENTRY_URL = new URL(`../index${extname(import.meta.url)}`, import.meta.url).href

let loadCount = 0

/**
 * Imports a configuration module and returns all that it exports.
 *
 * While it loads, `fillrate` resolves to this copy of the package, so that a configuration works with a global install
 * and in a checkout that has not been built. TypeScript is read as an ES module whatever the nearest package.json says,
 * since `import … from 'fillrate'` is one. Files that the module imports by path are read again each time as well (for
 * SIGHUP).
 *
 * @throws what the module throws, and Node's errors about a module that it cannot load
 */
export async function importModule(path: string, source: string): Promise<Readonly<Record<string, unknown>>> {
  const url = pathToFileURL(path)
  url.searchParams.set(RELOAD_PARAMETER, String(++loadCount))
  // CommonJS has its own cache, which ignores queries.
  Reflect.deleteProperty(createRequire(import.meta.url).cache, path)
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (specifier === 'fillrate') return { url: PACKAGE_ENTRY_URL, shortCircuit: true }
      const resolved = next(specifier, context)
      const mark = reloadMark(context.parentURL)
      const isOwn = resolved.url.startsWith('file:') && !resolved.url.includes('/node_modules/')
      if (resolved.url !== url.href && (mark === null || !isOwn)) return resolved
      const marked = new URL(resolved.url)
      if (mark !== null) marked.searchParams.set(RELOAD_PARAMETER, mark)
      const format = moduleFormat(marked, marked.href === url.href ? source : null)
      return { ...resolved, url: marked.href, ...(format === null ? {} : { format }) }
    },
  })
  try {
    const module: unknown = await import(url.href)
    return typeof module === 'object' && module !== null ? (module as Record<string, unknown>) : {}
  } finally {
    hooks.deregister()
  }
}

function reloadMark(parentUrl: string | undefined): string | null {
  return parentUrl === undefined ? null : (URL.parse(parentUrl)?.searchParams.get(RELOAD_PARAMETER) ?? null)
}

/**
 * ES modules in JavaScript are read as TypeScript too: Node reports the position of a syntax error only for TypeScript.
 * Null: Node decides.
 */
function moduleFormat(url: URL, source: string | null): string | null {
  if (/\.m?ts$/.test(url.pathname)) return 'module-typescript'
  return source !== null && /^\s*(?:import|export)\b/m.test(source) ? 'module-typescript' : null
}

/** The file of a stack frame, without the reload parameter. */
function framePath(frame: string): string {
  const url = URL.parse(frame)
  return url?.protocol === 'file:' ? fileURLToPath(url) : frame.replace(/\?.*$/, '')
}

/** The problem that stopped a configuration module from loading, with its line if the error has one. */
export function toImportProblem(error: unknown, path: string): Problem {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : `a throw of ${String(error)}`
  const at = error instanceof Error ? locate(error.stack ?? '', path) : null
  return {
    place: at === null ? path : `${at.path}:${at.line}${at.column === null ? '' : `:${at.column}`}`,
    found: cleanMessage(message),
    expected: 'a module that loads and exports a configuration by default',
    todo: null,
  }
}

interface ErrorPosition {
  readonly path: string
  readonly line: number
  readonly column: number | null
}

/** Syntax errors print the position, the line and a caret before the stack; other errors have frames. */
function locate(stack: string, path: string): ErrorPosition | null {
  const [head = '', ...rest] = stack.split('\n')
  const before = /^(file:\/\/.+|\/.+|[A-Za-z]:\\.+):(\d+)$/.exec(head)
  if (before !== null) {
    const caret = rest.slice(0, rest.indexOf('')).find((line) => /^\s*\^+\s*$/.test(line))
    return toErrorPosition(before, caret === undefined ? null : caret.indexOf('^') + 1)
  }
  for (const line of rest) {
    const frame = /(file:\/\/[^\s()]+|\/[^()]+|[A-Za-z]:\\[^()]+):(\d+):(\d+)\)?$/.exec(line)
    if (frame !== null && (line.includes(`?${RELOAD_PARAMETER}=`) || line.includes(path)))
      return toErrorPosition(frame, Number(frame[3]))
  }
  return null
}

const toErrorPosition = (
  [, frame = '', line = '']: readonly string[],
  column: number | null,
): ErrorPosition => ({
  path: framePath(frame),
  line: Number(line),
  column,
})

function cleanMessage(message: string): string {
  const unmarked = message.replaceAll(new RegExp(String.raw`\?${RELOAD_PARAMETER}=\d+`, 'g'), '')
  // A message may contain terminal control sequences.
  return maskPasswords(stripVTControlCharacters(unmarked).replace(/[^\P{Cc}\n]/gu, ''))
}
