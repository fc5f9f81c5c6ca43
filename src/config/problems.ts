import wrapAnsi from 'wrap-ansi'
import { FillrateError } from '../util/error-text.ts'
import type { z } from 'zod'
import { adviseUnlisted } from './source-schema.ts'
import { describeValue, didYouMean, oneOf, quoteText } from '../util/text.ts'

/** One mistake in the configuration or the environment. */
export interface Problem {
  /** Where: `sources.contacts.outputs.title.policy`, `FILLRATE_PORT`, `fillrate.config.json:3:14`. */
  readonly place: string
  /** The current value, without secrets. A line of the file may follow, with a caret under the place. */
  readonly found: string
  readonly expected: string
  /** How to fix it, if that says more than `expected`. */
  readonly todo: string | null
}

/**
 * An invalid configuration or environment; nothing has been run. The message is formatted for a terminal.
 * @example
 * try {
 *   await createFillrate({ config: 'fillrate.config.ts', env: process.env })
 * } catch (error) {
 *   if (error instanceof ConfigProblems) for (const { place, expected } of error.problems) console.error(place, expected)
 *   else throw error
 * }
 */
export class ConfigProblems extends FillrateError {
  override readonly name = 'ConfigProblems'
  /** The file's path, or `the environment`. */
  readonly where: string
  readonly problems: readonly Problem[]

  constructor(where: string, problems: readonly Problem[], options?: ErrorOptions) {
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
    super(`${count} in ${where}:\n\n${formatProblems(problems)}`, options)
    this.where = where
    this.problems = problems
  }
}

const MAX_WIDTH = 100
const LABEL_WIDTH = 10

/** A variable that is required. */
export const describeUnset = (place: string, expected: string): Problem => ({
  place,
  found: 'not set',
  expected,
  todo: 'Set it in the environment or in a .env file in this folder.',
})

/** Formats problems for a terminal: the place on its own line, and what was found, expected and to do below it. */
export function formatProblems(problems: readonly Problem[], width = MAX_WIDTH): string {
  return problems.map((problem) => formatProblem(problem, Math.min(width, MAX_WIDTH))).join('\n\n')
}

function formatProblem({ place, found, expected, todo }: Problem, width: number): string {
  const room = width - LABEL_WIDTH - 4
  const lines = [
    `  ${place}`,
    ...toLabelledLines('found', found, room),
    ...toLabelledLines('expected', expected, room),
  ]
  if (todo !== null) lines.push(...toLabelledLines('to do', todo, room))
  return lines.join('\n')
}

function toLabelledLines(label: string, text: string, room: number): string[] {
  return text
    .split('\n')
    .flatMap((line, index, all) =>
      isPointedAt(line, all[index + 1]) ? [line] : wrapAnsi(line, room).split('\n'),
    )
    .map((line, index) => `    ${(index === 0 ? label : '').padEnd(LABEL_WIDTH)}${line}`.trimEnd())
}

/** A caret would point elsewhere if its line were wrapped. */
const isPointedAt = (line: string, next: string | undefined): boolean =>
  [line, next ?? ''].some((text) => /^\s*\^\s*$/.test(text))

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
        (value) => typeof value === 'string',
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
      const values = issue.values.filter((value) => typeof value === 'string')
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
      (sum, issue) =>
        sum + (issue.code === 'unrecognized_keys' && issue.path.length === 0 ? issue.keys.length : 0),
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
