import type { ServiceDefinition } from '../domain/service/adapter.ts'
import { createService, type Service } from '../domain/service/service.ts'
import { isObject } from '../domain/json.ts'
import { describeValue, toVariablePart } from '../util/text.ts'
import type { Problem } from './problems.ts'
import { maskSentValues } from './environment.ts'
import { toProblems } from './schema-problems.ts'
import { serviceSchema } from './service-schema.ts'

/** A service as it was given: a value that is not checked yet, and where it is, for messages. */
export interface GivenService {
  readonly definition: unknown
  /** A file, or a key of the configuration. */
  readonly place: string
  /** Whether its module exports `cases`; absent: it is in the configuration itself, which exports none. */
  readonly hasCases?: boolean
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

/**
 * Checks a service. Every mistake is a problem with its place: a path that does not begin with a slash, a placeholder
 * that no input fills, an encoding that does not exist, a limit that cannot be read.
 */
export function parseService({ definition, place }: GivenService): {
  readonly service: Service | null
  readonly problems: readonly Problem[]
} {
  const parsed = serviceSchema.safeParse(definition)
  if (parsed.success) {
    const service = createService(definition as ServiceDefinition)
    maskSentValues(service)
    return { service, problems: [] }
  }
  const isFile = place.includes('/')
  return {
    service: null,
    problems: toProblems(parsed.error.issues, definition).map((problem) => ({
      ...problem,
      place: problem.place === '' ? place : `${place}${isFile ? ': ' : '.'}${problem.place}`,
    })),
  }
}
