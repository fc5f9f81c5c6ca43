import type { Config } from './config.ts'
import { createConfigSchema } from './config-schema.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { resolveConfig } from './resolve.ts'
import { toProblems } from './schema-problems.ts'
import { type GivenService, parseService } from './service-schema.ts'
import type { ConfiguredService } from './source-schema.ts'
import { isObject } from '../domain/json.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import { describeValue, toVariablePart } from '../util/text.ts'

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
  const services = split.flatMap(({ name, given, module }): ConfiguredService[] => {
    const named = (module === null ? null : modules.get(module)) ?? given
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

/**
 * A service of a configuration, before it is checked: given there, or the path of a module; neither:
 * the built-in one.
 */
export interface SplitService {
  /** Null: it is the only one. */
  readonly name: string | null
  readonly given: GivenService | null
  readonly module: string | null
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
  if (!isObject(value)) return { config: value, services: [{ name: null, ...BUILT_IN }], problems: [] }
  if (value['services'] === undefined) {
    const { service, ...config } = value
    const { settings, ...split } = splitService(service, 'service')
    return {
      config: settings === undefined ? config : { ...config, service: settings },
      services: [{ name: null, ...split }],
      problems: [],
    }
  }
  const refused = Object.keys(value).filter((key) => OF_ONE_SERVICE.has(key))
  const { services, ...rest } = Object.fromEntries(
    Object.entries(value).filter(([key]) => !refused.includes(key)),
  )
  const entries = isObject(services) && !Array.isArray(services) ? Object.entries(services) : []
  const split = entries.map(([name, entry]) => ({ name, ...splitService(entry, `services.${name}`) }))
  const settings = split.map((one) => [one.name, one.settings ?? {}] as const)
  return {
    config: { ...rest, services: Object.fromEntries(settings) },
    services: split.map(({ name, given, module }) => ({ name, given, module })),
    problems: [
      ...refused.map((key) => refuseBeside(key, entries[0]?.[0])),
      ...(entries.length === 0 ? [describeNoServices(services)] : checkVariableNames(entries)),
    ],
  }
}

const BUILT_IN = { given: null, module: null }

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

/** Names that differ in a case or a sign only have the same variables. */
function checkVariableNames(entries: readonly (readonly [string, unknown])[]): Problem[] {
  const names = entries.map(([name]) => name)
  return names.flatMap((name, index) => {
    const twin = names.slice(0, index).find((other) => toVariablePart(other) === toVariablePart(name))
    return twin === undefined
      ? []
      : [
          {
            place: `services.${name}`,
            found: `a name with the variables of ${twin}, FILLRATE_${toVariablePart(name)}_…`,
            expected: 'a name of its own in capitals, too',
            todo: null,
          },
        ]
  })
}

/** One service: the value itself, or its `adapter`; what is left is its settings, undefined if nothing is. */
function splitService(
  value: unknown,
  place: string,
): Omit<SplitService, 'name'> & { readonly settings: unknown } {
  if (!isObject(value)) return { ...BUILT_IN, settings: value }
  if (isDefinition(value, place))
    return { settings: undefined, given: { definition: value, place }, module: null }
  const { adapter, ...settings } = value
  if (typeof adapter === 'string') return { settings: value, given: null, module: adapter }
  if (adapter === undefined) return { ...BUILT_IN, settings: value }
  return { settings, given: { definition: adapter, place: `${place}.adapter` }, module: null }
}

/** Settings have none of these; `bulk` is among those of one of several services. */
const isDefinition = (service: object, place: string): boolean =>
  ['name', 'person', 'company', 'companyBulk', 'webhook', 'fields', 'bulk'].some(
    (key) => Object.hasOwn(service, key) && (key !== 'bulk' || place === 'service'),
  )
