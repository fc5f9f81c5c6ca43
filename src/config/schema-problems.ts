import type { z } from 'zod'
import { adviseUnlisted } from './source-schema.ts'
import type { Problem } from './problems.ts'
import { describeValue, didYouMean, oneOf, quoteText } from '../util/text.ts'

type Issue = z.core.$ZodIssue

/**
 * Converts zod's issues to problems with their place and advice.
 * @param at the place of the value: a file, or a key of the configuration; absent: the configuration itself
 */
export const toProblems = (issues: readonly Issue[], value: unknown, at?: string): Problem[] =>
  issues
    .flatMap((issue) => toProblem(issue, issue.path, value))
    .map((problem) => ({ ...problem, place: placeIn(at, problem.place) }))

function placeIn(at: string | undefined, path: string): string {
  if (at === undefined || path === '') return path || (at ?? 'the configuration')
  return `${at}${at.includes('/') ? ': ' : '.'}${path}`
}

function toProblem(issue: Issue, path: KeyPath, config: unknown): Problem[] {
  const value = valueAt(config, path)
  const place = formatKeyPath(path)
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => unknownKeyProblem(key, path, issue.message.split(', ')))
    case 'invalid_union': {
      const branch = bestBranch(issue.errors, value)
      if (branch !== undefined)
        return branch.flatMap((inner) => toProblem(inner, [...path, ...inner.path], config))
      // No branch has this discriminator; its values are what was expected.
      const options = ('options' in issue ? (issue.options ?? []) : []).filter(
        (one) => typeof one === 'string',
      )
      const expected = options.length > 0 ? oneOf(options) : issue.message
      return [{ place, found: describeValue(value), expected, todo: suggestWord(value, options) }]
    }
    case 'invalid_key': {
      const key = String(path.at(-1))
      return [
        { place, found: quoteText(key), expected: issue.issues[0]?.message ?? issue.message, todo: null },
      ]
    }
    case 'invalid_value': {
      const values = issue.values.filter((one) => typeof one === 'string')
      const isField = path[2] === 'outputs' && path.at(-1) !== 'policy' && typeof value === 'string'
      const todo = suggestWord(value, values) ?? (isField ? adviseUnlisted(value) : null)
      return [{ place, found: describeValue(value), expected: issue.message, todo }]
    }
    case 'custom': {
      const found: unknown = issue.params?.['found']
      const todo: unknown = issue.params?.['todo']
      return [
        {
          place,
          found: typeof found === 'string' ? found : describeValue(value),
          expected: issue.message,
          todo: typeof todo === 'string' ? todo : null,
        },
      ]
    }
    default:
      return [{ place, found: describeValue(value), expected: issue.message, todo: null }]
  }
}

const suggestWord = (value: unknown, words: readonly string[]): string | null =>
  typeof value === 'string' ? didYouMean(value, words) : null

/**
 * The branch of a union that the value was intended for: one that knows most of its keys, and whose
 * first check it passes.
 */
function bestBranch(branches: readonly (readonly Issue[])[], value: unknown): readonly Issue[] | undefined {
  const isObject = typeof value === 'object' && value !== null
  const countUnknown = (issues: readonly Issue[]): number =>
    issues.reduce(
      (sum, one) => sum + (one.code === 'unrecognized_keys' && one.path.length === 0 ? one.keys.length : 0),
      0,
    )
  return branches
    .toSorted((a, b) => countUnknown(a) - countUnknown(b))
    .find((issues) => {
      const first = issues[0]
      if (first === undefined || first.path.length > 0 || first.code === 'unrecognized_keys') return true
      return first.code === 'invalid_union'
        ? isObject
        : first.code === 'invalid_value' && typeof value === 'string'
    })
}

/** An unknown key. Its value is not shown: it may be a secret. */
function unknownKeyProblem(key: string, path: KeyPath, known: readonly string[]): Problem {
  return {
    place: formatKeyPath([...path, key]),
    found: 'an unknown key',
    expected: `one of ${known.join(', ')}`,
    todo: SECRET.test(key) ? SET_IN_ENVIRONMENT : didYouMean(key, known),
  }
}

/** Settings that people expect in the configuration, although they come from the environment. */
const SECRET = /secret|api_?key|token|^(?:database|connection)|^(?:base|public|webhook)_?url$/i
const SET_IN_ENVIRONMENT =
  'Secrets and addresses are set in the environment or in .env: DATABASE_URL, FILLRATE_BASE_URL, FILLRATE_API_KEY …'

type KeyPath = readonly PropertyKey[]

/** `sources.contacts.outputs["attributes.department"].policy`, `schedule[0].cron`. */
const formatKeyPath = (path: KeyPath): string =>
  path
    .map((key) => {
      if (typeof key === 'number') return `[${key}]`
      const name = String(key)
      return /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`
    })
    .join('')
    .replace(/^\./, '')

/** The value at the path, or undefined. */
const valueAt = (root: unknown, path: KeyPath): unknown =>
  path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? (value as Record<PropertyKey, unknown>)[key]
        : undefined,
    root,
  )
