import { readFileSync } from 'node:fs'
import { type Expression, parseSync, type TSSignature, type TSType, Visitor } from 'oxc-parser'
import { z } from 'zod'
import { createConfigSchema } from '../src/config/config-schema.ts'
import { BUILT_IN_SERVICE } from '../src/domain/service/built-in.ts'

// oxlint-disable no-underscore-dangle -- zod exposes the parts of a schema only there

/** The parts of JSON Schema that the configuration's schema uses. */
export interface ConfigJsonSchema {
  readonly type?: string | readonly string[]
  description?: string
  readonly default?: unknown
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: ConfigJsonSchema
  readonly anyOf?: readonly ConfigJsonSchema[]
  readonly oneOf?: readonly ConfigJsonSchema[]
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, ConfigJsonSchema>>
  readonly additionalProperties?: ConfigJsonSchema | boolean
}

/**
 * The JSON Schema of a .json configuration, for editors: generated from the schema that parses it, with the words of the
 * types that describe a `fillrate.config.ts`. Draft 7 is the newest version that every editor supports.
 * @throws if a key has no words, or states another default than the schema has
 */
export function configJsonSchema(): ConfigJsonSchema {
  const builtIn = { name: null, adapter: BUILT_IN_SERVICE }
  const schema = z.toJSONSchema(createConfigSchema({ services: [builtIn], isOpen: true }), {
    target: 'draft-7',
    io: 'input',
    unrepresentable: 'any',
    override: addCheckedConstraints,
  }) as ConfigJsonSchema
  describe(schema, readTypes())
  return { title: 'Fillrate configuration', ...schema } as ConfigJsonSchema
}

/** The words of a type's members, by their names. */
type Words = ReadonlyMap<string, string>

function describe(schema: ConfigJsonSchema, types: readonly Words[]): void {
  const { properties = {}, anyOf = [], oneOf = [], items, additionalProperties } = schema
  const names = Object.keys(properties)
  const words = types.find((one) => one.size === names.length && names.every((name) => one.has(name)))
  for (const [name, property] of Object.entries(properties)) {
    const description = words?.get(name)
    if (!description)
      throw new Error(`no type of ${TYPES.pathname} with ${names.join(', ')} explains ${name}`)
    checkDefault(name, property.default, description)
    property.description = description
  }
  for (const part of [...Object.values(properties), ...anyOf, ...oneOf, items, additionalProperties])
    if (typeof part === 'object') describe(part, types)
}

const TYPES = new URL('../src/config/define.ts', import.meta.url)

/**
 * The types that a `fillrate.config.ts` is written with. The words that an editor shows for their members are the only ones: what
 * else describes the configuration takes them from there, from the type with the same members. A type stands below those that it
 * is made of.
 */
function readTypes(): Words[] {
  const text = readFileSync(TYPES, 'utf8')
  const { program, comments } = parseSync(TYPES.pathname, text)
  const explain = ({ start }: TSSignature): string => {
    const before = comments.findLast(({ end }) => end <= start && text.slice(end, start).trim() === '')
    const lines = before?.value.replace('*', '').split('\n') ?? []
    return lines
      .map((line) => line.replace(/^\s*\*/, '').trim())
      .join(' ')
      .trim()
  }
  const toWords = (members: readonly TSSignature[]): Words =>
    new Map(
      members.flatMap((one) =>
        one.type === 'TSPropertySignature' && one.key.type === 'Identifier'
          ? [[one.key.name, explain(one)] as const]
          : [],
      ),
    )
  const interfaces = new Map<string, Words>()
  const others: Words[] = []
  const wordsOf = (one: TSType | Expression): Words => {
    if (one.type === 'TSTypeLiteral') return toWords(one.members)
    const name = one.type === 'TSTypeReference' ? one.typeName : one
    return (name.type === 'Identifier' && interfaces.get(name.name)) || new Map()
  }
  const merge = (words: readonly Words[]): Words => new Map(words.flatMap((one) => [...one]))
  new Visitor({
    TSInterfaceDeclaration({ id, body, extends: parents }) {
      const inherited = parents.map(({ expression }) => wordsOf(expression))
      interfaces.set(id.name, merge([...inherited, toWords(body.body)]))
    },
    TSTypeLiteral: (one) => void others.push(wordsOf(one)),
    TSIntersectionType: ({ types }) => void others.push(merge(types.map(wordsOf))),
  }).visit(program)
  return [...interfaces.values(), ...others]
}

/** The words state a default for those who read, the schema fills it in. */
function checkDefault(name: string, value: unknown, doc: string): void {
  if (value === undefined || typeof value === 'object') return
  if (!doc.replaceAll('`', '').includes(`Default: ${String(value)}`))
    throw new Error(`the default of \`${name}\` is ${String(value)}; its description says: ${doc}`)
}

type Override = NonNullable<NonNullable<Parameters<typeof z.toJSONSchema>[1]>['override']>

/** Adds constraints that zod omits because a function checks them. Checks that JSON Schema cannot express are left out. */
const addCheckedConstraints: Override = ({ zodSchema, jsonSchema, path }) => {
  const { def } = zodSchema._zod
  const isChecked = def.checks?.some((check) => check._zod.def.check === 'custom') === true
  if (def.type === 'string' && isChecked) jsonSchema.pattern = String.raw`\S`
  if (def.type === 'pipe' && isString(def.in)) jsonSchema.pattern = DURATION_PATTERN
  if (def.type === 'record' && (isChecked || path.at(-1) === 'outputs')) jsonSchema.minProperties = 1
  // Every part of these has a default of its own.
  if (isEmptyObject(jsonSchema.default)) delete jsonSchema.default
  // JSON has no regular expressions, only strings.
  if (jsonSchema.anyOf) jsonSchema.anyOf = jsonSchema.anyOf.filter((one) => Object.keys(one).length > 0)
  if (jsonSchema.properties && 'linkedin_url' in jsonSchema.properties)
    Object.assign(jsonSchema, {
      anyOf: ['email', 'linkedin_url', 'name', 'first_name'].map((name) => ({ required: [name] })),
      dependencies: {
        name: WITH_COMPANY,
        company: WITH_NAME,
        first_name: { allOf: [WITH_NAME, WITH_COMPANY] },
        last_name: { allOf: [WITH_NAME, WITH_COMPANY] },
        company_domain: WITH_NAME,
      },
    })
}

const WITH_NAME = { anyOf: [{ required: ['name'] }, { required: ['first_name', 'last_name'] }] }
const WITH_COMPANY = { anyOf: [{ required: ['company'] }, { required: ['company_domain'] }] }

const isEmptyObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0

const isString = (schema: z.core.$ZodType): boolean =>
  'def' in schema._zod && schema._zod.def.type === 'string'

const DURATION_PATTERN = String.raw`^\s*\d+(\.\d+)? ?[A-Za-z]+\s*$`
