import type { ServiceDefinition } from '../domain/service/adapter.ts'
import { toLookupKind } from '../domain/identifiers/kind.ts'
import type { InputName } from '../domain/mapping.ts'
import { createService, type Service } from '../domain/service/service.ts'
import { isObject } from '../domain/json.ts'
import { describeValue, listNames } from '../util/text.ts'
import type { Config } from './config.ts'
import type { Problem } from './problems.ts'
import { toProblems } from './schema-problems.ts'
import { maskNamedVariables } from './service-environment.ts'
import { serviceSchema } from './service-schema.ts'

/** A service as it was given: a value that is not checked yet, and where it is, for messages. */
export interface GivenService {
  readonly definition: unknown
  /** A file, or a key of the configuration. */
  readonly place: string
}

/**
 * Takes the service out of a configuration: `service` itself, or `service.adapter`; a text is the path of a module.
 * The rest has the settings of the calls.
 */
export function splitService(value: unknown): {
  readonly config: unknown
  readonly given: GivenService | null
  readonly module: string | null
} {
  const none = { config: value, given: null, module: null }
  if (!isObject(value)) return none
  const { service, ...config } = value
  if (typeof service === 'string') return { config, given: null, module: service }
  if (!isObject(service)) return none
  if (isDefinition(service)) return { config, given: { definition: service, place: 'service' }, module: null }
  const { adapter, ...settings } = service
  if (typeof adapter === 'string') return { config: value, given: null, module: adapter }
  if (adapter === undefined) return none
  const given = { definition: adapter, place: 'service.adapter' }
  return { config: { ...config, service: settings }, given, module: null }
}

/** The settings of the calls have neither. */
const isDefinition = (service: object): boolean =>
  ['name', 'person', 'company', 'bulk', 'companyBulk', 'webhook', 'fields'].some((key) =>
    Object.hasOwn(service, key),
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
    maskNamedVariables(service)
    return { service, problems: [] }
  }
  const isFile = place.includes('/')
  return {
    service: null,
    problems: toProblems(parsed.error.issues, serviceSchema, definition).map((problem) => ({
      ...problem,
      place: problem.place === '' ? place : `${place}${isFile ? ': ' : '.'}${problem.place}`,
    })),
  }
}

/** Sources that the service cannot serve: of a kind or with an input that it does not take. */
export function checkSources({ sources, adapter: service }: Config): Problem[] {
  return Object.entries(sources).flatMap(([name, source]): Problem[] => {
    const call = service[source.kind]
    if (call === null)
      return [
        {
          place: `sources.${name}.kind`,
          found: describeValue(source.kind),
          expected: `a kind that the service ${service.name} has an endpoint for`,
          todo: `Describe \`${source.kind}\` in the service, or remove the source.`,
        },
      ]
    return (Object.keys(source.inputs) as InputName[])
      .filter((input) => input !== 'company' && !call.inputs.has(toLookupKind(input)))
      .map((input) => ({
        place: `sources.${name}.inputs.${input}`,
        found: 'an input that the service does not take',
        expected: `what ${service.name} takes: ${listNames([...call.inputs])}`,
        todo: 'Remove it here, or add it to `inputs` of the endpoint if the service takes it.',
      }))
  })
}
