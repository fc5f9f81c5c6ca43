import { resolveConfig, type Config } from './config.ts'
import { createConfigSchema } from './config-schema.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { toProblems } from './schema-problems.ts'
import { parseService, type GivenService } from './service-schema.ts'
import type { ConfiguredService } from './source-schema.ts'
import { isObject } from '../domain/json.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import { describeValue } from '../util/text.ts'

/**
 * Checks a configuration and fills in its defaults. Reports every problem at once: of its services; then of all
 * that depends on them; then contradictions between its parts.
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
 * Takes the services out of a configuration: `service` or an entry of `services`, itself or as its `adapter`, which may be the
 * path of a module. The rest has the settings of the calls.
 */
export function splitServices(value: unknown): {
  readonly config: unknown
  readonly services: readonly SplitService[]
  readonly problems: readonly Problem[]
} {
  if (!isObject(value)) return { config: value, services: [splitService(null, undefined)], problems: [] }
  if (value['services'] === undefined) {
    const { service, ...config } = value
    const only = splitService(null, service)
    return {
      config: only.settings === undefined ? config : { ...config, service: only.settings },
      services: [only],
      problems: [],
    }
  }
  const refused = Object.keys(value).filter((key) => OF_ONE_SERVICE.has(key))
  const { services, ...rest } = Object.fromEntries(
    Object.entries(value).filter(([key]) => !refused.includes(key)),
  )
  const entries = isObject(services) && !Array.isArray(services) ? Object.entries(services) : []
  const split = entries.map(([name, entry]) => splitService(name, entry))
  return {
    config: {
      ...rest,
      services: Object.fromEntries(split.map((one) => [one.name, one.settings ?? {}] as const)),
    },
    services: split,
    problems: [
      ...refused.map((key) => refuseBeside(key, entries[0]?.[0])),
      ...(entries.length === 0 ? [describeNoServices(services)] : []),
    ],
  }
}

/** Keys at the top of a configuration that are settings of its only service. */
const OF_ONE_SERVICE: ReadonlySet<string> = new Set(['service', 'bulk', 'price'])

const refuseBeside = (key: string, example = 'acme'): Problem => ({
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
