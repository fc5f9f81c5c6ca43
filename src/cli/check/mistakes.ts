import { LOOKUP_KINDS } from '../../domain/identifiers/kind.ts'
import type { LookupEndpoint, ServiceDefinition } from '../../domain/service/adapter.ts'
import { listNames } from '../../util/text.ts'
import type { CheckedProblem } from './finding.ts'

/** Headers and parameters that are credentials, whatever their value. */
const SECRET_NAME =
  /^(?:proxy-)?authorization$|^cookie$|(?:^|[-_])(?:api[-_]?key|key|token|secret|password|auth)$/i
/** `Bearer …`, `sk_live_…`: how keys begin. */
const SECRET_START = /^(?:(?:bearer|basic|token) |(?:sk|pk|rk|key)[-_])/i
/** Letters and digits without a word in them, longer than a name, a type or a version. A dash may part them, as in a UUID. */
const RANDOM_PART = /^(?=(?:\D*\d){3})(?=.*[a-z])[a-z\d+/=]{16,}$/i
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i

/** Whether a header or a parameter of a description looks like a credential. */
const isSecretValue = (name: string, value: string): boolean =>
  SECRET_NAME.test(name) ||
  SECRET_START.test(value) ||
  UUID.test(value) ||
  value.split(/[-_.:]/).some((part) => RANDOM_PART.test(part))

/** Parts of a description that are valid, and with which a run would pay for answers that it cannot use, or show a key. Pure. */
export function findMistakes(definition: ServiceDefinition): CheckedProblem[] {
  const { person, company } = definition
  return [
    ...findSecrets(definition),
    ...(person ? findInEndpoint('person', person as LookupEndpoint<never>) : []),
    ...(company ? findInEndpoint('company', company as LookupEndpoint<never>) : []),
    ...findInBulk(definition),
    ...findInRecords(definition),
  ]
}

const error = (
  place: string,
  found: string,
  expected: string,
  todo: string | null = null,
): CheckedProblem => ({
  place: `service.${place}`,
  found,
  expected,
  todo,
})

/** The value is not quoted. */
const findSecrets = ({ headers = {}, query = {} }: ServiceDefinition): CheckedProblem[] =>
  Object.entries({ headers, query }).flatMap(([part, values]) =>
    Object.entries(values).flatMap(([name, value]) =>
      typeof value === 'string' && isSecretValue(name, value)
        ? [
            error(
              `${part}.${name}`,
              'what looks like a key',
              'no secret: a description is code, and is shown',
              part === 'headers'
                ? `Set the key as FILLRATE_API_KEY, with \`auth: { header: '${name.toLowerCase()}' }\`; a second one as \`{ env: 'NAME' }\`.`
                : `Set the key as FILLRATE_API_KEY, with \`auth: { query: '${name}' }\`; a second one as \`{ env: 'NAME' }\`.`,
            ),
          ]
        : [],
    ),
  )

/** The inputs that fill a placeholder. */
const FILLED_BY: Readonly<Record<string, string>> = {
  email: 'email',
  linkedin_url: 'linkedin_url',
  name: 'name_company',
  company: 'name_company',
  domain: 'domain',
}

function findInEndpoint(
  name: 'person' | 'company',
  { path, inputs }: LookupEndpoint<never>,
): CheckedProblem[] {
  const taken: readonly string[] = inputs ?? LOOKUP_KINDS[name]
  for (const [, placeholder = ''] of path.matchAll(/\{(\w+)\}/g)) {
    const empty = taken.filter((kind) => FILLED_BY[placeholder] !== kind)
    if (empty.length > 0)
      return [
        error(
          `${name}.path`,
          `the placeholder {${placeholder}}, which is empty for ${listNames(empty)}`,
          `inputs that fill it: \`inputs: ['${FILLED_BY[placeholder] ?? placeholder}']\``,
        ),
      ]
  }
  return []
}

function findInBulk({ person, bulk, webhook, poll }: ServiceDefinition): CheckedProblem[] {
  if (bulk === undefined) return []
  const { inputs = ['email'], ordered = false, results } = bulk
  const single: readonly string[] = person?.inputs ?? LOOKUP_KINDS.person
  const others = inputs.filter((kind) => !single.includes(kind))
  const reader = results === 'answer' ? bulk.read : (poll?.read ?? webhook?.read)
  return [
    ...(others.length === 0
      ? []
      : [
          error(
            'bulk.inputs',
            `${listNames(others)}, which \`person\` does not take`,
            'inputs of `person`: what a job leaves without a result is requested singly',
          ),
        ]),
    ...(inputs.includes('name_company') && !ordered && reader === undefined
      ? [
          error(
            'bulk.inputs',
            'names, and nothing that says whose a result is',
            'a `read` that gives each result the `index` of its input, or `ordered: true` if the results are in order',
          ),
        ]
      : []),
  ]
}

function findInRecords({ person, fields }: ServiceDefinition): CheckedProblem[] {
  const isKnownByFields = person?.record?.confidence === null && person.read === undefined
  if (!isKnownByFields || Object.keys(fields?.person ?? {}).length > 0) return []
  return [
    error(
      'fields.person',
      'no field, where no record has a confidence',
      'the fields of its records: a record without a confidence is known by them alone',
    ),
  ]
}
