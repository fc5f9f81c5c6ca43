import type { z } from 'zod'
import { knownKeys } from './known-keys.ts'
import { placeOf, valueAt } from './place.ts'
import type { Path } from './place.ts'
import type { Problem } from './problems.ts'
import { didYouMean } from './suggest.ts'

/** A key that the schema doesn't have there. Its value is not shown: it may be a secret. */
export function unknownKey(key: string, path: Path, schema: z.core.$ZodType, config: unknown): Problem {
  const known = knownKeys(schema, path, config)
  return {
    place: placeOf([...path, key]),
    found: 'a key that means nothing here',
    expected: `one of ${known.join(', ')}`,
    todo: fromEnvironment(key) ?? ofTheOtherKind(key, path, config) ?? didYouMean(key, known),
  }
}

/** What people look for in the configuration, though it comes from the environment. */
const variables: ReadonlyArray<readonly [RegExp, string]> = [
  [/secret/i, 'FILLRATE_WEBHOOK_SECRET'],
  [/api_?key|token/i, 'FILLRATE_API_KEY'],
  [/^(?:database|connection)/i, 'DATABASE_URL'],
  [/^base_?url$/i, 'FILLRATE_BASE_URL'],
  [/^(?:public|webhook)_?url$/i, 'FILLRATE_PUBLIC_URL'],
]

function fromEnvironment(key: string): string | null {
  const variable = variables.find(([pattern]) => pattern.test(key))?.[1]
  return variable === undefined
    ? null
    : `Set ${variable} in the environment or in .env, and take it out of here.`
}

function ofTheOtherKind(key: string, path: Path, config: unknown): string | null {
  if (path.at(-1) !== 'inputs') return null
  const kind = valueAt(config, [...path.slice(0, -1), 'kind'])
  if (kind === 'person' && key === 'domain') {
    return "A domain identifies a company: use it in a source of kind 'company'."
  }
  if (kind === 'company' && key === 'email') {
    return 'A company is asked by its domain: domain: "split_part(t.email, \'@\', 2)".'
  }
  return null
}
