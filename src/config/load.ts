import { existsSync } from 'node:fs'
import { readFile, realpath } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import { resolveConfig, type Config } from './config.ts'
import { ConfigProblems, toProblems, type Problem } from './problems.ts'
import { parseService, type GivenService } from './service-schema.ts'
import { describeValue, maskPasswords } from '../util/text.ts'
import { registerHooks } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { createConfigSchema } from './config-schema.ts'
import type { ConfiguredService } from './source-schema.ts'
import { isObject } from '../domain/json.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'

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
 * Finds, reads and checks the configuration. A process reads a module once, and a JSON file each time.
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
  for (const { given } of splitServices(value).services)
    if (typeof given === 'string') loaded.set(given, await loadService(resolve(folder, given)))
  return loaded
}

/**
 * Reads the module of a service.
 * @throws ConfigProblems if it does not load
 */
async function loadService(path: string): Promise<GivenService> {
  const example = 'export default defineService({ name: … })'
  const { exported, module } = await readModule(await readSource(path), path, example)
  const { cases } = module
  return { definition: exported, place: path, hasCases: Array.isArray(cases) && cases.length > 0 }
}

const loadProblem = (where: string, problem: Problem, cause?: unknown): ConfigProblems =>
  new ConfigProblems(where, [problem], cause === undefined ? {} : { cause })

/** The entry of this package: `src/index.ts` in a checkout, `dist/src/index.js` when installed. */
const PACKAGE_ENTRY_URL = new URL(`../index${extname(import.meta.url)}`, import.meta.url).href

/**
 * Imports a configuration module and returns all that it exports.
 *
 * While it loads, `fillrate` is this copy of the package, so that it works with a global install and in a checkout
 * that was not built. TypeScript is an ES module whatever package.json says, because `import … from 'fillrate'` is
 * one. A process reads a module once.
 * @throws what the module throws, and Node's errors about a module that it cannot load
 */
async function importModule(path: string, source: string): Promise<Readonly<Record<string, unknown>>> {
  const { href } = pathToFileURL(path)
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (specifier === 'fillrate') return { url: PACKAGE_ENTRY_URL, shortCircuit: true }
      const resolved = next(specifier, context)
      if (!resolved.url.startsWith('file:') || resolved.url.includes('/node_modules/')) return resolved
      const format = moduleFormat(resolved.url, resolved.url === href ? source : null)
      return { ...resolved, ...(format === null ? {} : { format }) }
    },
  })
  try {
    const module: unknown = await import(href)
    return typeof module === 'object' && module !== null ? (module as Record<string, unknown>) : {}
  } finally {
    hooks.deregister()
  }
}

/**
 * ES modules in JavaScript are read as TypeScript too: Node reports the position of a syntax error only
 * for TypeScript. Null: Node decides.
 */
function moduleFormat(url: string, source: string | null): string | null {
  if (/\.m?ts$/.test(url)) return 'module-typescript'
  return source !== null && /^\s*(?:import|export)\b/m.test(source) ? 'module-typescript' : null
}

/** The file of a stack frame. */
const framePath = (frame: string): string =>
  URL.parse(frame)?.protocol === 'file:' ? fileURLToPath(frame) : frame

/** The problem that stopped a configuration module from loading, with its line if the error has one. */
function toImportProblem(error: unknown, path: string): Problem {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : `a throw of ${String(error)}`
  return {
    place: (error instanceof Error && locate(error.stack ?? '', path)) || path,
    found: cleanMessage(message),
    expected: 'a module that loads and exports a configuration by default',
    todo: null,
  }
}

const OWN_FOLDER = fileURLToPath(new URL('..', import.meta.url))

/** File, line and column of an error. Syntax errors print them before the stack, others have frames. */
function locate(stack: string, path: string): string | null {
  const [head = '', ...rest] = stack.split('\n')
  const [, file, line] = /^(file:\/\/.+|\/.+|[A-Za-z]:\\.+):(\d+)$/.exec(head) ?? []
  if (file !== undefined) {
    const caret = rest.slice(0, rest.indexOf('')).find((text) => /^\s*\^+\s*$/.test(text))
    return [framePath(file), line, ...(caret === undefined ? [] : [caret.indexOf('^') + 1])].join(':')
  }
  for (const text of rest) {
    const frame = /(file:\/\/[^\s()]+|\/[^()]+|[A-Za-z]:\\[^()]+):(\d+:\d+)\)?$/.exec(text)
    if (frame === null || text.includes('node:internal')) continue
    const at = framePath(frame[1] ?? '')
    if (at === path || !(at.startsWith(OWN_FOLDER) || at.includes('/node_modules/')))
      return `${at}:${frame[2]}`
  }
  return null
}

/** A message may contain terminal control sequences. */
const cleanMessage = (message: string): string =>
  maskPasswords(stripVTControlCharacters(message).replace(/[^\P{Cc}\n]/gu, ''))

/**
 * Checks a configuration and fills in its defaults. Reports every problem at once: of its services; then
 * of all that depends on them; then contradictions between its parts.
 *
 * @param path the file it was loaded from, for messages; null for a configuration from code
 * @param modules the services of the modules that the configuration names, by their paths as written
 * @throws ConfigProblems
 */
export function parseConfig(
  value: unknown,
  path: string | null,
  modules: ReadonlyMap<string, GivenService> = new Map(),
): Config {
  const where = path ?? 'the configuration'
  const { config, services: split, problems: misplaced } = splitServices(value)
  const wrong: Problem[] = [...misplaced]
  const services = split.flatMap(({ name, given }): ConfiguredService[] => {
    const named = typeof given === 'string' ? modules.get(given) : given
    const { service, problems } = named ? parseService(named) : { service: BUILT_IN_SERVICE, problems: [] }
    wrong.push(...problems)
    return service === null ? [] : [{ name, adapter: service, hasCases: named?.hasCases }]
  })
  // A mistake in the services leaves nothing to hold the outputs against.
  if (wrong.length > 0) throw new ConfigProblems(where, wrong)
  const parsed = createConfigSchema({ services, isOpen: false }).safeParse(config, { jitless: true })
  if (!parsed.success) throw new ConfigProblems(where, toProblems(parsed.error.issues, config))
  return { path, ...resolveConfig(parsed.data, services) }
}

/** A service of a configuration, before it is checked. */
interface SplitService {
  /** Null: it is the only one. */
  readonly name: string | null
  /** Its description, or the path of the module that exports it; null: it is the built-in one. */
  readonly given: GivenService | string | null
  /** What the configuration says of its calls; undefined: nothing. */
  readonly settings: unknown
}

/**
 * Takes the services out of a configuration: `service` or an entry of `services`, itself or as its
 * `adapter`, which may be the path of a module. The rest has the settings of the calls.
 */
function splitServices(value: unknown): {
  readonly config: unknown
  readonly services: readonly SplitService[]
  readonly problems: readonly Problem[]
} {
  if (!isObject(value)) return { config: value, services: [splitService(null, undefined)], problems: [] }
  if (value['services'] === undefined) {
    const { service, ...config } = value
    const only = splitService(null, service)
    return { config: { ...config, service: only.settings }, services: [only], problems: [] }
  }
  const { services, ...config } = value
  const split = Object.entries(isObject(services) ? services : {}).map(([name, entry]) =>
    splitService(name, entry),
  )
  const settings = split.map(({ name, settings = {} }) => [name, settings] as const)
  const refused = Object.keys(config).filter((key) => OF_ONE_SERVICE.has(key))
  return {
    config: { ...config, services: Object.fromEntries(settings) },
    services: split,
    problems: [
      ...refused.map((key) => refuseBeside(key, split[0]?.name)),
      ...(split.length === 0 ? [describeNoServices(services)] : []),
    ],
  }
}

/** Keys at the top of a configuration that are settings of its only service. */
const OF_ONE_SERVICE: ReadonlySet<string> = new Set(['service', 'bulk', 'price'])

const refuseBeside = (key: string, example: string | null = 'acme'): Problem => ({
  place: key,
  found: `\`${key}\` beside \`services\``,
  expected: 'settings of a service in its entry of `services`',
  todo:
    key === 'service'
      ? `Move it to \`services\`, under a name, such as services.${example}.`
      : `Move it to the service that it is about: services.${example}.${key}.`,
})

const describeNoServices = (found: unknown): Problem => ({
  place: 'services',
  found: describeValue(found),
  expected:
    "at least one service, by its name: an object such as { acme: {}, pdl: { adapter: './services/pdl.ts' } }",
  todo: null,
})

/** One service: the value itself, or its `adapter`; what is left is its settings. */
function splitService(name: string | null, value: unknown): SplitService {
  if (!isObject(value)) return { name, given: null, settings: value }
  const place = name === null ? 'service' : `services.${name}`
  if (DESCRIBES.some((key) => Object.hasOwn(value, key)) || (name === null && Object.hasOwn(value, 'bulk')))
    return { name, given: { definition: value, place }, settings: undefined }
  const { adapter = null, ...settings } = value
  if (adapter === null || typeof adapter === 'string') return { name, given: adapter, settings: value }
  return { name, given: { definition: adapter, place: `${place}.adapter` }, settings }
}

/** Keys that only a description has; `bulk` is among the settings of one of several services, too. */
const DESCRIBES = ['name', 'person', 'company', 'companyBulk', 'webhook', 'fields']
