import { readFile, realpath, stat } from 'node:fs/promises'
import { extname, resolve } from 'node:path'
import type { Config } from './config.ts'
import { excerpt, positionOf } from './excerpt.ts'
import { importDefault } from './import-module.ts'
import { importProblem } from './import-problem.ts'
import { JsonProblem, parseConfigJson } from './json.ts'
import { parseConfig } from './parse.ts'
import { ConfigProblems } from './problems.ts'
import type { Problem } from './problems.ts'
import { show } from './show.ts'

/** In the order in which they are looked for in the working folder. */
export const configFiles = [
  'fillrate.config.ts',
  'fillrate.config.mts',
  'fillrate.config.js',
  'fillrate.config.mjs',
  'fillrate.config.json',
] as const

const todoWithoutFile =
  'Run `fillrate init` to have one written from your database, or name yours with --config.'

/**
 * Finds, reads and checks the configuration. Each call reads the file anew.
 *
 * @param options.path a file, relative to `cwd`; without it, the first of `configFiles` in `cwd`
 * @throws ConfigProblems naming the file and the place in it
 */
export async function loadConfig(options: { cwd: string; path?: string }): Promise<Config> {
  const path = await findConfig(options)
  const source = await readSource(path)
  return parseConfig(
    extname(path) === '.json' ? readJson(source, path) : await readModule(source, path),
    path,
  )
}

async function findConfig({ cwd, path }: { cwd: string; path?: string }): Promise<string> {
  if (path !== undefined) return resolve(cwd, path)
  for (const name of configFiles) {
    const candidate = resolve(cwd, name)
    if ((await kindOf(candidate)) === 'file') return candidate
  }
  throw problem(cwd, {
    place: cwd,
    found: 'no configuration',
    expected: `one of ${configFiles.join(', ')}`,
    todo: todoWithoutFile,
  })
}

async function readSource(path: string): Promise<string> {
  const expected = 'a configuration: a .ts, .mts, .js, .mjs or .json file'
  const kind = await kindOf(path)
  if (kind === 'nothing')
    throw problem(path, { place: path, found: 'no such file', expected, todo: todoWithoutFile })
  if (kind === 'folder')
    throw problem(path, { place: path, found: 'a folder', expected, todo: 'Name the file in it.' })
  const extension = extname(path)
  if (!configFiles.some((name) => extname(name) === extension)) {
    throw problem(path, {
      place: path,
      found: extension === '' ? 'a file without an ending' : `a ${extension} file`,
      expected,
      todo: null,
    })
  }
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const found = cause instanceof Error ? cause.message : String(cause)
    throw problem(path, { place: path, found, expected: 'a file that can be read', todo: null }, cause)
  }
}

async function kindOf(path: string): Promise<'file' | 'folder' | 'nothing'> {
  try {
    return (await stat(path)).isDirectory() ? 'folder' : 'file'
  } catch {
    return 'nothing'
  }
}

function readJson(source: string, path: string): unknown {
  try {
    return parseConfigJson(source)
  } catch (cause) {
    if (!(cause instanceof JsonProblem)) throw cause
    const end = source.trimEnd().length
    const { line, column } = positionOf(source, Math.min(cause.offset, end))
    const found = cause.offset >= end ? 'the end of the file' : 'JSON that breaks off here'
    throw problem(
      path,
      {
        place: `${path}:${line}:${column}`,
        found: `${found}\n${excerpt(source, line, column) ?? ''}`,
        expected: cause.expected,
        todo: 'JSON has no comments, no comma before a closing bracket, and double quotes only. A fillrate.config.ts is freer.',
      },
      cause,
    )
  }
}

async function readModule(source: string, path: string): Promise<unknown> {
  let exported: unknown
  // As Node does before it imports: the errors of a module name its real path.
  const real = await realpath(path)
  try {
    exported = await importDefault(real, source)
  } catch (cause) {
    throw problem(path, importProblem(cause, real), cause)
  }
  if (typeof exported === 'object' && exported !== null) return exported
  throw problem(path, {
    place: path,
    found: exported === undefined ? 'no default export' : `a default export that is ${show(exported)}`,
    expected: 'export default defineConfig({ sources: { … } })',
    todo: null,
  })
}

const problem = (where: string, one: Problem, cause?: unknown): ConfigProblems =>
  new ConfigProblems(where, [one], cause === undefined ? {} : { cause })
