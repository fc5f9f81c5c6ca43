import type { z } from 'zod'
import type { SourceKind } from '../domain/mapping.ts'
import { adviseOnField, recordFields } from './fields.ts'
import { placeOf, valueAt } from './place.ts'
import type { Path } from './place.ts'
import type { Problem } from './problems.ts'
import { oneOf, quote, show } from './show.ts'
import { didYouMean } from './suggest.ts'
import { unknownKey } from './unknown-key.ts'

type Issue = z.core.$ZodIssue

/** What zod found wrong with a configuration, as problems with their place and what to do. */
export function problemsOf(issues: readonly Issue[], schema: z.core.$ZodType, config: unknown): Problem[] {
  return issues.flatMap((issue) => problemOf(issue, issue.path, { schema, config }))
}

interface Context {
  readonly schema: z.core.$ZodType
  readonly config: unknown
}

function problemOf(issue: Issue, path: Path, context: Context): Problem[] {
  const value = valueAt(context.config, path)
  const place = placeOf(path)
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => unknownKey(key, path, context.schema, context.config))
    case 'invalid_union': {
      const branch = bestBranch(issue.errors, value)
      if (branch !== undefined)
        return branch.flatMap((inner) => problemOf(inner, [...path, ...inner.path], context))
      // No branch has this discriminator; its own values say what was expected.
      const options = ('options' in issue ? (issue.options ?? []) : []).filter(
        (one) => typeof one === 'string',
      )
      const expected = options.length > 0 ? oneOf(options) : issue.message
      return [{ place, found: show(value), expected, todo: suggest(value, options) }]
    }
    case 'invalid_key': {
      const key = String(path.at(-1))
      return [{ place, found: quote(key), expected: issue.issues[0]?.message ?? issue.message, todo: null }]
    }
    case 'invalid_value': {
      const values = issue.values.filter((one) => typeof one === 'string')
      const kind = kindOfFields(values)
      const todo =
        kind !== null && typeof value === 'string' ? adviseOnField(kind, value) : suggest(value, values)
      return [{ place, found: show(value), expected: issue.message, todo }]
    }
    case 'custom': {
      const found: unknown = issue.params?.['found']
      const todo: unknown = issue.params?.['todo']
      return [
        {
          place,
          found: typeof found === 'string' ? found : show(value),
          expected: issue.message,
          todo: typeof todo === 'string' ? todo : null,
        },
      ]
    }
    default:
      return [{ place, found: show(value), expected: issue.message, todo: null }]
  }
}

const suggest = (value: unknown, words: readonly string[]): string | null =>
  typeof value === 'string' ? didYouMean(value, words) : null

/** Which kind's fields these are, if they are any. */
function kindOfFields(values: readonly string[]): SourceKind | null {
  if (values.length === recordFields.person.length && values.includes('name.full')) return 'person'
  return values.length === recordFields.company.length && values.includes('legal_name') ? 'company' : null
}

/** Of a union's branches, the one that the value was meant for: the one that got further than its first look at it. */
function bestBranch(branches: readonly (readonly Issue[])[], value: unknown): readonly Issue[] | undefined {
  const isObject = typeof value === 'object' && value !== null
  return branches.find((issues) => {
    const first = issues[0]
    if (first === undefined || first.path.length > 0 || first.code === 'unrecognized_keys') return true
    return first.code === 'invalid_union'
      ? isObject
      : first.code === 'invalid_value' && typeof value === 'string'
  })
}
