import type { ServiceDefinition } from '../../domain/service/adapter.ts'
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

/** Keys among the headers and parameters of a description, which is code and is shown. Pure; no value is quoted. */
export const findSecrets = ({ headers = {}, query = {} }: ServiceDefinition): CheckedProblem[] =>
  Object.entries({ headers, query }).flatMap(([part, values]) =>
    Object.entries(values).flatMap(([name, value]) => {
      if (typeof value !== 'string' || !isSecretValue(name, value)) return []
      const auth = part === 'headers' ? `header: '${name.toLowerCase()}'` : `query: '${name}'`
      return [
        {
          place: `service.${part}.${name}`,
          found: 'what looks like a key',
          expected: 'no secret: a description is code, and is shown',
          todo: `Set the key as FILLRATE_API_KEY, with \`auth: { ${auth} }\`; a second one as \`{ env: 'NAME' }\`.`,
        },
      ]
    }),
  )
