import type { Config } from './config.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { salvageConfig } from './salvage.ts'
import { toProblems } from './schema-problems.ts'
import { createConfigSchema } from './schema.ts'
import { fieldsOf } from './fields.ts'
import { checkSources, parseService, splitService, type GivenService } from './service.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import { describeValue, didYouMean, oneOf } from '../util/text.ts'

/**
 * Checks a configuration and fills in its defaults. Reports every problem at once; contradictions between the
 * schedule and other parts once everything else is valid.
 *
 * @param path the file it was loaded from, for messages; null for a configuration from code
 * @param module the service of a module that the configuration names
 * @throws InvalidConfig
 */
export function parseConfig(value: unknown, path: string | null, module: GivenService | null = null): Config {
  const where = path ?? 'the configuration'
  const { config, given } = splitService(value)
  const named = module ?? given
  const { service, problems: wrong } = named
    ? parseService(named)
    : { service: BUILT_IN_SERVICE, problems: [] }
  // A mistake in the service leaves nothing to hold the outputs against.
  const fields = service === null ? ANY_FIELDS : fieldsOf(service)
  const schema = createConfigSchema(service ?? BUILT_IN_SERVICE, fields)
  const parsed = schema.safeParse(config, { jitless: true })
  if (!parsed.success) {
    const usable = salvageConfig(config, schema)
    throw new InvalidConfig(
      where,
      [...wrong, ...toProblems(parsed.error.issues, schema, config, fields)],
      usable && { path, serviceName: null, views: [], ...usable },
      { hasInvalidService: wrong.length > 0 },
    )
  }
  const resolved: Config = { path, serviceName: null, views: [], ...parsed.data }
  const problems = [...wrong, ...checkSchedule(resolved), ...checkSources(resolved)]
  if (problems.length > 0)
    throw new InvalidConfig(where, problems, resolved, { hasInvalidService: wrong.length > 0 })
  return resolved
}

/** A configuration that was read, with problems. */
export class InvalidConfig extends ConfigProblems {
  /** The valid part, to be checked against the database; null if there is no valid source. */
  readonly usable: Config | null
  /** The service that it describes is among the mistakes: nothing can be said about how it is called. */
  readonly hasInvalidService: boolean

  constructor(
    where: string,
    problems: readonly Problem[],
    usable: Config | null,
    { hasInvalidService }: { readonly hasInvalidService: boolean },
  ) {
    super(where, problems)
    this.usable = usable
    this.hasInvalidService = hasInvalidService
  }
}

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
