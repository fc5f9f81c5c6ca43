import type { Config } from './config.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { toProblems } from './schema-problems.ts'
import { createConfigSchema } from './resolve.ts'
import type { ConfiguredService } from './turns.ts'
import { parseService, splitServices, type GivenService } from './service.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import { describeValue, didYouMean, oneOf } from '../util/text.ts'

/**
 * Checks a configuration and fills in its defaults. Reports every problem at once: of its services; then of all
 * that depends on them; then contradictions between the schedule and other parts.
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
  const parsed = createConfigSchema(services).safeParse(config, { jitless: true })
  if (!parsed.success) throw new ConfigProblems(where, toProblems(parsed.error.issues, config))
  const resolved = { path, ...parsed.data }
  const problems = checkSchedule(resolved)
  if (problems.length > 0) throw new ConfigProblems(where, problems)
  return resolved
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
