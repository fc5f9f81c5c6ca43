import { RECORD_FIELDS } from '../../src/config/fields.ts'
import { configJsonSchema } from '../../src/config/json-schema.ts'
import { table } from './table.ts'

/** As much of a JSON Schema as ours is made of. */
interface Schema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema | boolean
}

/** What stands for itself in the schema. */
const SAID: Readonly<Record<string, string>> = {
  $schema: 'For editors, in a .json configuration: `./node_modules/fillrate/fillrate.schema.json`.',
  kind: 'What a row is about: it decides which inputs and which fields there are.',
  inputs: 'SQL expressions that identify a row; see below.',
  email: 'An email address.',
  service: 'How the service is called; see below.',
  bulk: 'Jobs of up to 100 emails; see below.',
  schedule: 'When `fillrate start` runs what; see below.',
  field: 'A field of the record; see below.',
}

/** docs/configuration.md, out of the schema that reads a configuration. */
export function configurationPage(): string {
  const schema = configJsonSchema() as Schema
  const { sources, service, bulk, schedule } = schema.properties ?? {}
  const [person, company] = objectIn(sources?.additionalProperties).oneOf ?? []
  const output = objectIn(person?.properties?.['outputs']?.additionalProperties)
  const options = output.anyOf?.flatMap((one) => one.oneOf ?? [])[0]
  const known = new Set(['$schema', 'sources', 'service', 'bulk', 'schedule', 'kind', 'inputs', 'outputs'])
  return `${[
    '# The configuration, field by field',
    '<!-- Made by `npm run docs` out of src/config. Not to be edited here. -->',
    'The configuration is `fillrate.config.ts` (or `.js`, `.mjs`, `.json`) in the working folder, or what `--config` ' +
      'names. `defineConfig` gives completion of every field; a `.json` file gets it from ' +
      '[`fillrate.schema.json`](../fillrate.schema.json). Addresses and secrets are not in it: they come from the ' +
      '[environment](cli.md#environment). [`fillrate.config.example.ts`](../fillrate.config.example.ts) has every field ' +
      'in it; `fillrate init` writes one out of your database, and `fillrate check` holds it against the database and ' +
      'the service.',
    'A duration is a number with its unit: `30s`, `15m`, `6h`, `90d`, `2 weeks`.',
    '## At the top',
    fields(schema),
    '## A source: `sources.NAME`',
    'A name is of letters, digits, `_` and `-`, and begins with a letter. In every expression the table is `t`.',
    person === undefined ? '' : fields(person),
    '### `inputs` of a person',
    'The first usable of email, profile URL, and name with company is asked. At least one of them is needed.',
    fields(objectIn(person?.properties?.['inputs'])),
    '### `inputs` of a company',
    fields(objectIn(company?.properties?.['inputs'])),
    '### `outputs`',
    'The name is a column of the table, or a key inside a jsonb column (`attributes.department`). The value is a field ' +
      'of the record, or an object:',
    options === undefined ? '' : fields(options),
    `Fields of a person: ${list(RECORD_FIELDS.person)}.`,
    `Fields of a company: ${list(RECORD_FIELDS.company)}.`,
    '**Policies.** `blank` writes only where the column is blank: NULL, an empty text or one of white space, an empty ' +
      'array, JSON null, or a missing key. `tracked` also replaces what Fillrate wrote itself and nobody has changed ' +
      'since. `always` replaces anything. A field that the record lacks never erases a value, whatever the policy.',
    '## `service`',
    fields(objectIn(service)),
    '## `bulk`',
    fields(objectIn(bulk)),
    '## `schedule`: a list of',
    fields(objectIn(schedule?.items)),
    ...Object.entries(schema.properties ?? {})
      .filter(([name, one]) => !known.has(name) && one.properties !== undefined)
      .flatMap(([name, one]) => [`## \`${name}\``, fields(one)]),
  ]
    .filter((text) => text !== '')
    .join('\n\n')}\n`
}

const list = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ')

const objectIn = (schema: Schema | boolean | undefined): Schema => (typeof schema === 'object' ? schema : {})

function fields({ properties = {}, required = [] }: Schema): string {
  return table(
    ['field', 'value', 'what it is'],
    Object.entries(properties).map(([name, schema]) => [
      `\`${name}\`${required.includes(name) ? ', required' : ''}`,
      valueOf(name, schema),
      schema.description ?? SAID[name] ?? '',
    ]),
  )
}

/** What may stand there, in words. */
function valueOf(name: string, schema: Schema): string {
  if (name === 'kind') return '`person` or `company`'
  if (name === 'field') return 'see below'
  if (name === 'matches') return 'a regular expression, as such or as text'
  const { type, enum: values, anyOf, oneOf, minimum, maximum } = schema
  if (schema.properties !== undefined) return 'an object'
  if (schema.const !== undefined) return `\`${String(schema.const)}\``
  if (values !== undefined) return values.map((one) => `\`${String(one)}\``).join(', ')
  const any = anyOf ?? oneOf
  if (any !== undefined) return any.map((one) => valueOf('', one)).join(', or ')
  if (type === 'array')
    return schema.items?.properties === undefined
      ? `a list of ${valueOf('', schema.items ?? {}).replace(/^an? /, '')}s`
      : 'a list of objects'
  if (type === 'boolean') return '`true` or `false`'
  if (type === 'object') return 'an object'
  if (type === 'integer' || type === 'number')
    return `${type === 'integer' ? 'a whole number' : 'a number'}${bounds(minimum, maximum)}`
  if (schema.pattern?.includes('[A-Za-z]+\\s*$')) return 'a duration'
  return SQL.has(name) ? 'SQL' : 'a text'
}

const SQL = new Set([
  'joins',
  'where',
  'changedAt',
  'sql',
  'email',
  'linkedin_url',
  'name',
  'company',
  'domain',
])

/** More than anybody would write is no bound worth telling. */
function bounds(minimum: number | undefined, maximum: number | undefined): string {
  if (minimum === undefined) return ''
  return maximum === undefined || maximum >= 1_000_000_000
    ? `, at least ${minimum}`
    : `, ${minimum} to ${maximum}`
}
