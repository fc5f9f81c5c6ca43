import { z } from 'zod'
import type { SourceKind } from '../domain/mapping.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import { type ServiceFields, fieldsOf, suggestField } from './fields.ts'
import { type KeyPath, formatKeyPath, valueAt } from './location.ts'
import type { Problem } from './problems.ts'
import { describeValue, didYouMean, oneOf, quoteText } from '../util/text.ts'

type Issue = z.core.$ZodIssue

/** Converts zod's issues to problems with their place and advice. */
export function toProblems(
  issues: readonly Issue[],
  schema: z.core.$ZodType,
  config: unknown,
  fields: readonly ServiceFields[] = [fieldsOf(BUILT_IN_SERVICE)],
): Problem[] {
  return issues.flatMap((issue) => toProblem(issue, issue.path, { schema, config, fields }))
}

interface IssueContext {
  /** Of each service. */
  readonly fields: readonly ServiceFields[]
  readonly schema: z.core.$ZodType
  readonly config: unknown
}

function toProblem(issue: Issue, path: KeyPath, context: IssueContext): Problem[] {
  const value = valueAt(context.config, path)
  const place = formatKeyPath(path)
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => unknownKeyProblem(key, path, context.schema, context.config))
    case 'invalid_union': {
      const branch = bestBranch(issue.errors, value)
      if (branch !== undefined)
        return branch.flatMap((inner) => toProblem(inner, [...path, ...inner.path], context))
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
      const of = findFields(values, context.fields)
      const todo =
        of !== null && typeof value === 'string'
          ? suggestField(of.kind, value, of.fields)
          : suggestWord(value, values)
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

/** The kind of source and the services whose fields these are, if any: of one service, or of all. */
function findFields(
  values: readonly string[],
  services: readonly ServiceFields[],
): { readonly kind: SourceKind; readonly fields: ServiceFields } | null {
  const isList = (list: readonly string[]): boolean =>
    list.length > 0 && list.length === values.length && list.every((field, index) => field === values[index])
  const all = (kind: SourceKind): string[] => [...new Set(services.flatMap((fields) => fields[kind]))]
  for (const fields of [...services, { person: all('person'), company: all('company') }])
    for (const kind of ['person', 'company'] as const) if (isList(fields[kind])) return { kind, fields }
  return null
}

/** The branch of a union that the value was intended for: one that knows most of its keys, and whose first check it passes. */
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
function unknownKeyProblem(key: string, path: KeyPath, schema: z.core.$ZodType, config: unknown): Problem {
  const known = listKnownKeys(schema, path, config)
  return {
    place: formatKeyPath([...path, key]),
    found: 'an unknown key',
    expected: `one of ${known.join(', ')}`,
    todo: adviseEnvironment(key) ?? adviseOtherKind(key, path, config) ?? didYouMean(key, known),
  }
}

/** Settings that people expect in the configuration, although they come from the environment. */
const ENVIRONMENT_KEYS: ReadonlyArray<readonly [RegExp, string]> = [
  [/secret/i, 'FILLRATE_WEBHOOK_SECRET'],
  [/api_?key|token/i, 'FILLRATE_API_KEY'],
  [/^(?:database|connection)/i, 'DATABASE_URL'],
  [/^base_?url$/i, 'FILLRATE_BASE_URL'],
  [/^(?:public|webhook)_?url$/i, 'FILLRATE_PUBLIC_URL'],
]

function adviseEnvironment(key: string): string | null {
  const variable = ENVIRONMENT_KEYS.find(([pattern]) => pattern.test(key))?.[1]
  return variable === undefined ? null : `Set ${variable} in the environment or in .env, and remove it here.`
}

function adviseOtherKind(key: string, path: KeyPath, config: unknown): string | null {
  if (path.at(-1) !== 'inputs') return null
  const kind = valueAt(config, [...path.slice(0, -1), 'kind'])
  if (kind === 'person' && key === 'domain') {
    return "A domain identifies a company: use it in a source of kind 'company'."
  }
  if (kind === 'company' && key === 'email') {
    return 'A company is looked up by its domain: domain: "split_part(t.email, \'@\', 2)".'
  }
  return null
}

type AnySchema = z.core.$ZodType

/** The keys allowed in the object at this path; of several variants, those of the matching ones. */
function listKnownKeys(schema: AnySchema, path: KeyPath, value: unknown): string[] {
  const [key, ...rest] = path
  const here = schemaVariants(schema, value)
  if (key !== undefined) {
    return [
      ...new Set(
        here.flatMap((one) =>
          childSchemas(one, key).flatMap((next) => listKnownKeys(next, rest, valueAt(value, [key]))),
        ),
      ),
    ]
  }
  return [...new Set(here.flatMap((one) => (one instanceof z.ZodObject ? Object.keys(one.shape) : [])))]
}

/** Unwraps schemas that have no keys of their own. */
function schemaVariants(schema: AnySchema, value: unknown): AnySchema[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodPrefault)
    return schemaVariants(schema.unwrap(), value)
  if (schema instanceof z.ZodPipe) return schemaVariants(schema.in, value)
  if (schema instanceof z.ZodDiscriminatedUnion) {
    const name = schema.def.discriminator
    const fitting = schema.options.filter((option) =>
      childSchemas(option, name).some((one) => z.safeParse(one, valueAt(value, [name])).success),
    )
    return fitting.length > 0 ? fitting : [...schema.options]
  }
  return schema instanceof z.ZodUnion
    ? schema.options.flatMap((option) => schemaVariants(option, value))
    : [schema]
}

function childSchemas(schema: AnySchema, key: PropertyKey): AnySchema[] {
  if (schema instanceof z.ZodObject) {
    const value: AnySchema | undefined = schema.shape[String(key)]
    return value === undefined ? [] : [value]
  }
  if (schema instanceof z.ZodRecord) return [schema.valueType]
  if (schema instanceof z.ZodArray) return [schema.element]
  return []
}
