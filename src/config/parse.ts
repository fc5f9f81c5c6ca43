import type { Config } from './config.ts'
import { problemsOf } from './issues.ts'
import { ConfigProblems } from './problems.ts'
import type { Problem } from './problems.ts'
import { resolveConfig } from './resolve.ts'
import { configSchema } from './schema.ts'
import type { ParsedConfig } from './schema.ts'
import { oneOf, show } from './show.ts'
import { didYouMean } from './suggest.ts'

/**
 * Checks what a configuration holds and fills in its defaults. Every problem is told at once, those between
 * the schedule and the rest when everything else is right.
 *
 * @param path the file that it came from, for the messages; null when it came from code
 * @throws ConfigProblems
 */
export function parseConfig(value: unknown, path: string | null): Config {
  const where = path ?? 'the configuration'
  const parsed = configSchema.safeParse(value)
  if (!parsed.success) throw new ConfigProblems(where, problemsOf(parsed.error.issues, configSchema, value))
  const problems = checkSchedule(parsed.data)
  if (problems.length > 0) throw new ConfigProblems(where, problems)
  return resolveConfig(parsed.data, path)
}

/** A schedule runs unattended: a source or a budget that is missing would be noticed only the next morning. */
function checkSchedule(config: ParsedConfig): Problem[] {
  const names = Object.keys(config.sources)
  return (config.schedule ?? []).flatMap((entry, index) => {
    const problems: Problem[] = (entry.sources ?? []).flatMap((name, position) =>
      names.includes(name)
        ? []
        : [
            {
              place: `schedule[${index}].sources[${position}]`,
              found: show(name),
              expected: `a source of this configuration: ${oneOf(names)}`,
              todo: didYouMean(name, names),
            },
          ],
    )
    if (entry.budget === undefined && config.budget === undefined) {
      problems.push({
        place: `schedule[${index}].budget`,
        found: 'nothing, and no budget for all runs either',
        expected: "a whole number of lookups, such as 10000, or 'unlimited'",
        todo: 'Add `budget` here or at the top of the configuration: no run spends without one.',
      })
    }
    return problems
  })
}
