import { existsSync } from 'node:fs'
import { readFile, realpath } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import type { Config } from './config.ts'
import { importModule, toImportProblem } from './import-module.ts'
import { parseConfig } from './parse.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { type GivenService, splitServices } from './service.ts'
import { describeValue, maskPasswords } from '../util/text.ts'

/** The file names that are looked for in the working folder, in order. */
export const CONFIG_FILES = [
  'fillrate.config.ts',
  'fillrate.config.mts',
  'fillrate.config.js',
  'fillrate.config.mjs',
  'fillrate.config.json',
] as const

const NO_FILE_ADVICE = 'Run `fillrate init` to create one from your database, or pass yours with --config.'

/**
 * Finds, reads and checks the configuration. Each call reads the file again.
 *
 * @param options.path a file, relative to `cwd`; without it, the first of `configFiles` in `cwd`
 * @throws ConfigProblems naming the file and the place in it
 */
export async function loadConfig(options: { cwd: string; path?: string }): Promise<Config> {
  const path = findConfig(options)
  const source = await readSource(path)
  const value = extname(path) === '.json' ? readJson(source, path) : (await readModule(source, path)).exported
  return parseConfig(value, path, await loadNamedServices(value, dirname(path)))
}

function findConfig({ cwd, path }: { cwd: string; path?: string }): string {
  if (path !== undefined) return resolve(cwd, path)
  for (const name of CONFIG_FILES) {
    const candidate = resolve(cwd, name)
    if (existsSync(candidate)) return candidate
  }
  throw loadProblem(cwd, {
    place: cwd,
    found: 'no configuration',
    expected: `one of ${CONFIG_FILES.join(', ')}`,
    todo: NO_FILE_ADVICE,
  })
}

async function readSource(path: string): Promise<string> {
  const expected = 'a configuration: a .ts, .mts, .js, .mjs or .json file'
  let source: string
  try {
    source = await readFile(path, 'utf8')
  } catch (cause) {
    const found = cause instanceof Error ? cause.message : String(cause)
    throw loadProblem(path, { place: path, found, expected, todo: NO_FILE_ADVICE }, cause)
  }
  const extension = extname(path)
  if (CONFIG_FILES.some((name) => extname(name) === extension)) return source
  const found = extension === '' ? 'a file without an ending' : `a ${extension} file`
  throw loadProblem(path, { place: path, found, expected, todo: null })
}

function readJson(source: string, path: string): unknown {
  try {
    return JSON.parse(source.replace(/^\ufeff/, ''))
  } catch (cause) {
    const { message } = cause as SyntaxError
    // V8 says where, but for a text that breaks off.
    const [said, line, column] = / \(line (\d+) column (\d+)\)$/.exec(message) ?? ['']
    throw loadProblem(
      path,
      {
        place: line === undefined ? path : `${path}:${line}:${column}`,
        found: maskPasswords(message.slice(0, message.length - said.length)),
        expected: 'JSON',
        todo: 'JSON has no comments, no trailing commas, and double quotes only. A fillrate.config.ts has fewer restrictions.',
      },
      cause,
    )
  }
}

async function readModule(
  source: string,
  path: string,
  expected = 'export default defineConfig({ sources: { … } })',
): Promise<{ readonly exported: object; readonly module: Readonly<Record<string, unknown>> }> {
  // As Node does for imports: errors of a module name its real path.
  const real = await realpath(path)
  const module = await importModule(real, source).catch((cause: unknown) => {
    throw loadProblem(path, toImportProblem(cause, real), cause)
  })
  const exported: unknown = await module['default']
  if (typeof exported === 'object' && exported !== null) return { exported, module }
  throw loadProblem(path, {
    place: path,
    found:
      exported === undefined ? 'no default export' : `a default export that is ${describeValue(exported)}`,
    expected,
    todo: null,
  })
}

/**
 * The services of the modules that a configuration names, by their paths as written.
 * @param folder what a relative path is relative to
 * @throws ConfigProblems if one of them does not load
 */
export async function loadNamedServices(
  value: unknown,
  folder: string,
): Promise<ReadonlyMap<string, GivenService>> {
  const loaded = new Map<string, GivenService>()
  for (const { module } of splitServices(value).services)
    if (module !== null) loaded.set(module, await loadService(resolve(folder, module)))
  return loaded
}

/**
 * Reads the module of a service.
 * @throws ConfigProblems if it does not load
 */
export async function loadService(path: string): Promise<GivenService> {
  const example = 'export default defineService({ name: … })'
  const { exported, module } = await readModule(await readSource(path), path, example)
  const { cases } = module
  return { definition: exported, place: path, hasCases: Array.isArray(cases) && cases.length > 0 }
}

const loadProblem = (where: string, one: Problem, cause?: unknown): ConfigProblems =>
  new ConfigProblems(where, [one], cause === undefined ? {} : { cause })
