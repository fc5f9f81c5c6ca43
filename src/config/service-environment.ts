import { type FromEnvironment, isOAuth } from '../domain/service/auth.ts'
import type { Service } from '../domain/service/service.ts'
import { isLoopbackUrl } from '../util/url.ts'
import { describeSecretProblem } from './env-values.ts'
import { type Environment, variableOf } from './environment.ts'
import type { Problem } from './problems.ts'

/** Names of all variables that a description has named in this process: nothing shows their values. */
const named = new Set<string>()

export const listNamedVariables = (): readonly string[] => [...named]

/** From now on the values of the variables that the description names are masked. */
export function maskNamedVariables(service: Pick<Service, 'headers'>): void {
  for (const { variable } of listVariables(service)) named.add(variable)
}

/** The variables that a description names, and the header that each is for. */
export const listVariables = ({
  headers,
}: Pick<Service, 'headers'>): { readonly variable: string; readonly header: string }[] =>
  Object.entries(headers)
    .filter((entry): entry is [string, FromEnvironment] => typeof entry[1] === 'object')
    .map(([header, { env }]) => ({ variable: env, header }))

/**
 * What the description of a service requires of the environment, beside an address and a key: the variables that it names,
 * with their values, and what is wrong.
 */
export function readServiceEnvironment(
  service: Pick<Service, 'name' | 'auth' | 'headers'>,
  environment: Pick<Environment, 'apiKeys' | 'baseUrl' | 'variable' | 'prefix'>,
): { readonly variables: Readonly<Record<string, string>>; readonly problems: readonly Problem[] } {
  const variables: Record<string, string> = {}
  const problems: Problem[] = []
  for (const { variable, header } of listVariables(service)) {
    const text = environment.variable(variable)
    const wrong = text === null ? null : describeSecretProblem(text, true)
    if (text !== null && wrong === null) variables[variable] = text
    else
      problems.push({
        place: variable,
        found: text === null ? 'not set' : `a value ${wrong} (not shown)`,
        expected: `the value of the header ${header}, which the description of ${service.name} takes from it`,
        todo: 'Set it in the environment or in a .env file in this folder.',
      })
  }
  return { variables, problems: [...problems, ...checkClient(service, environment)] }
}

function checkClient(
  { auth }: Pick<Service, 'auth'>,
  environment: Pick<Environment, 'apiKeys' | 'baseUrl' | 'prefix'>,
): Problem[] {
  const { apiKeys, baseUrl } = environment
  if (!isOAuth(auth)) return []
  const [client] = apiKeys
  const isWrong = client !== undefined && (apiKeys.length > 1 || !/^[^:]+:./.test(client))
  const isBelow = auth.oauth.tokenUrl.startsWith('/')
  return [
    ...(isWrong
      ? [
          {
            place: variableOf(environment, 'API_KEY'),
            found:
              apiKeys.length > 1
                ? `${apiKeys.length} clients (not shown)`
                : 'a key without an id or a secret (not shown)',
            expected:
              "one client's id and secret as id:secret, because the service issues tokens (`auth.oauth`)",
            todo: 'Put a colon between the id and the secret, and leave out other clients.',
          },
        ]
      : []),
    ...(isBelow && baseUrl !== null && baseUrl.startsWith('http:') && !isLoopbackUrl(baseUrl)
      ? [
          {
            place: variableOf(environment, 'BASE_URL'),
            found: `${baseUrl}, without TLS`,
            expected:
              "an https address, because the client's secret is sent to a path below it (`auth.oauth.tokenUrl`)",
            todo: 'Use https, or give `auth.oauth.tokenUrl` as an https address.',
          },
        ]
      : []),
  ]
}
