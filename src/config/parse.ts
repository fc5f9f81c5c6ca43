import type { Config } from './config.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { toProblems } from './schema-problems.ts'
import { createConfigSchema } from './schema.ts'
import { fieldsOf } from './fields.ts'
import { parseService, splitServices, type GivenService } from './service.ts'
import type { ConfiguredService } from './turns.ts'
import { isObject } from '../domain/json.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import { describeValue, didYouMean, oneOf } from '../util/text.ts'

/**
 * Checks a configuration and fills in its defaults. Reports every problem at once; contradictions between the
 * schedule and other parts once everything else is valid.
 *
 * @param path the file it was loaded from, for messages; null for a configuration from code
 * @param modules the services of the modules that the configuration names, by their paths as written
 * @throws InvalidConfig
 */
export function parseConfig(
  value: unknown,
  path: string | null,
  modules: ReadonlyMap<string, GivenService> = new Map(),
): Config {
  const where = path ?? 'the configuration'
  const { config, services: split, problems: misplaced } = splitServices(value)
  const wrong: Problem[] = []
  const services = split.map(({ name, given, module }): ConfiguredService => {
    const named = (module === null ? null : modules.get(module)) ?? given
    const { service, problems } = named ? parseService(named) : { service: BUILT_IN_SERVICE, problems: [] }
    wrong.push(...problems)
    // A mistake in the service leaves nothing to hold the outputs against.
    return service === null
      ? { name, service: BUILT_IN_SERVICE, fields: ANY_FIELDS }
      : { name, service, fields: fieldsOf(service), hasCases: named?.hasCases }
  })
  const isOpen = hasUnknownServices(config, services)
  const schema = createConfigSchema(
    isOpen ? services.map((one) => ({ ...one, fields: ANY_FIELDS })) : services,
    { isOpen },
  )
  const parsed = schema.safeParse(config, { jitless: true })
  if (!parsed.success)
    throw new InvalidConfig(where, [
      ...wrong,
      ...misplaced,
      ...toProblems(parsed.error.issues, schema, config),
    ])
  const resolved = { path, ...parsed.data }
  const problems = [...wrong, ...misplaced, ...checkSchedule(resolved)]
  if (problems.length > 0) throw new InvalidConfig(where, problems)
  return resolved
}

/** `services` is there, and is no object with an entry: no name is right or wrong then. */
const hasUnknownServices = (config: unknown, services: readonly ConfiguredService[]): boolean =>
  isObject(config) && config['services'] !== undefined && services.every(({ name }) => name === null)

/** A configuration that was read, with problems: nothing can be said about its services. */
export class InvalidConfig extends ConfigProblems {}

/** A schedule runs unattended: a missing source or budget would be noticed only the next morning. */
function checkSchedule(config: Config): Problem[] {
  const names = Object.keys(config.sources)
  return config.schedule.flatMap((entry, index) => {
    const problems: Problem[] = entry.sources.flatMap((name, position) =>
      names.includes(name)
        ? []
        : [
            {
              place: `schedule[${index}].sources[${position}]`,
              found: describeValue(name),
              expected: `a source of this configuration: ${oneOf(names)}`,
              todo: didYouMean(name, names),
            },
          ],
    )
    if (entry.budget === null && config.budget === null) {
      problems.push({
        place: `schedule[${index}].budget`,
        found: 'nothing, and no budget for all runs either',
        expected: "a whole number of lookups, such as 10000, or 'unlimited'",
        todo: 'Add `budget` here or at the top level of the configuration: a run requires one.',
      })
    }
    return problems
  })
}

const ANY_FIELDS = { person: [], company: [] } as const
