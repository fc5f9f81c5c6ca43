// oxlint-disable no-underscore-dangle -- zod exposes the parts of a schema only there
import { z } from 'zod'
import { configSchema } from './schema.ts'

type Override = NonNullable<NonNullable<Parameters<typeof z.toJSONSchema>[1]>['override']>

/**
 * The JSON Schema of a .json configuration, for editors: generated from the schema that parses it, so that the two cannot
 * diverge. Draft 7 is the newest version that every editor supports.
 */
export function configJsonSchema(): object {
  const schema = z.toJSONSchema(configSchema, {
    target: 'draft-7',
    io: 'input',
    unrepresentable: 'any',
    override: addCheckedConstraints,
  })
  return { title: 'Fillrate configuration', ...schema }
}

/** Adds constraints that zod omits because a function checks them. Checks that JSON Schema cannot express are left out. */
const addCheckedConstraints: Override = ({ zodSchema, jsonSchema, path }) => {
  const { def } = zodSchema._zod
  const isChecked = def.checks?.some((check) => check._zod.def.check === 'custom') === true
  if (def.type === 'string' && isChecked) jsonSchema.pattern = String.raw`\S`
  if (def.type === 'pipe' && isString(def.in)) jsonSchema.pattern = DURATION_PATTERN
  if (def.type === 'record' && (isChecked || path.at(-1) === 'outputs')) jsonSchema.minProperties = 1
  // JSON has no regular expressions, only strings.
  if (jsonSchema.anyOf) jsonSchema.anyOf = jsonSchema.anyOf.filter((one) => Object.keys(one).length > 0)
  if (jsonSchema.properties && 'linkedin_url' in jsonSchema.properties)
    Object.assign(jsonSchema, {
      anyOf: ['email', 'linkedin_url', 'name'].map((name) => ({ required: [name] })),
      dependencies: { name: ['company'], company: ['name'] },
    })
}

const isString = (schema: z.core.$ZodType): boolean =>
  'def' in schema._zod && schema._zod.def.type === 'string'

const DURATION_PATTERN = String.raw`^\s*\d+(\.\d+)? ?[A-Za-z]+\s*$`
