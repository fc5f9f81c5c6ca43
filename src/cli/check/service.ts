import { request, type Dispatcher } from 'undici'
import { valueAtPath, type Service } from '../../domain/service/service.ts'
import { variableOf, checkClient, type Environment } from '../../config/environment.ts'
import { callAccount, describeAccount, openClient } from '../../actions/actions.ts'
import { openDispatcher, type ProxySettings } from '../../service/dispatcher.ts'
import { networkErrorCode, networkErrorMeaning } from '../../util/network-errors.ts'
import { createFailedFinding, createFinding, createUnsetFinding, type Finding } from './finding.ts'
import { checkBulkAvailability } from '../../actions/bulk-availability.ts'
import type { ConfigService } from '../../config/config.ts'
import { endpointOf } from '../../domain/identifiers/kind.ts'
import { BUILT_IN_SERVICE } from '../../domain/service/built-in.ts'
import { kindOfInput } from '../../domain/service/job-inputs.ts'
import { toWebhookPath } from '../../webhook/address.ts'
import { understand, type CaseOutcome } from '../../actions/service-cases.ts'
import type { CompanyInput, PersonInput } from '../../domain/service/adapter.ts'
import { toScope } from '../../service/api-keys.ts'
import { openDatabase } from '../../store/open.ts'
import { acceptKey } from '../../store/rate-limits.ts'
import { UsageError, type CliCommand } from '../command.ts'

/** The timeout of network requests, in milliseconds. */
const CHECK_TIMEOUT_MS = 5_000

/** Checks that the service is reachable, by one HEAD request at its root without the key: free, and reveals nothing. */
async function checkAddress(environment: Environment): Promise<Finding> {
  const { baseUrl, proxies } = environment
  const variable = variableOf(environment, 'BASE_URL')
  if (baseUrl === null)
    return createUnsetFinding('service', variable, 'the base URL of the enrichment service')
  const { host } = new URL(baseUrl)
  try {
    const { status } = await sendRequest(baseUrl, proxies, { method: 'HEAD' })
    if (status < 500) return createFinding('service', 'ok', `${host} answers`)
    return createFinding('service', 'warning', `${host} answers, with ${status}`, {
      todo: 'Contact the provider, or try again later.',
    })
  } catch (error) {
    return createFailedFinding('service', {
      place: variable,
      found: `${baseUrl}: ${describeNetworkError(error)}`,
      expected: 'a reachable service',
      todo: 'Correct the URL, or check your network, proxy and certificates (NODE_EXTRA_CA_CERTS).',
    })
  }
}

/** Checks that a key is set, and whether the service accepts it, by its free call for the account: only another call is billed. */
export async function checkApiKey(
  environment: Environment,
  service: Service,
  isCalled = false,
): Promise<Finding> {
  if (environment.apiKey === null)
    return createUnsetFinding(
      'key',
      variableOf(environment, 'API_KEY'),
      'an API key of the enrichment service',
    )
  const account = await callAccount(service, environment)
  if (account?.isAccepted === false)
    return createFailedFinding('key', {
      place: variableOf(environment, 'API_KEY'),
      found: account.reason,
      expected: 'a key that the service accepts',
      todo: 'Correct the key, or the path of `account` in the description.',
    })
  if (account !== null) return createFinding('key', 'ok', describeAccount(account))
  const untested = 'set; not tested, because a call would be billed'
  return createFinding('key', 'ok', isCalled ? 'set; the call tests it' : untested)
}

/** Sends one request, and reads its answer. */
async function sendRequest(
  url: string,
  proxies: ProxySettings | undefined,
  options: Pick<Dispatcher.RequestOptions, 'method' | 'headers' | 'body'>,
): Promise<{ readonly status: number; readonly text: string }> {
  const dispatcher = openDispatcher(new URL(url).origin, proxies, {})
  try {
    const { statusCode, body } = await request(url, {
      dispatcher,
      ...options,
      headersTimeout: CHECK_TIMEOUT_MS,
      bodyTimeout: CHECK_TIMEOUT_MS,
      signal: AbortSignal.timeout(CHECK_TIMEOUT_MS),
    })
    return { status: statusCode, text: await body.text() }
  } finally {
    await dispatcher.destroy()
  }
}

/** The reason why a request failed, in words. */
function describeNetworkError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = networkErrorCode(error)
  if (error.name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT')
    return `no response within ${CHECK_TIMEOUT_MS / 1_000} s`
  const meaning = networkErrorMeaning(code)
  if (meaning === null) return code ?? error.message
  return code?.startsWith('UND_ERR') ? meaning : `${meaning} (${code})`
}

interface ServiceChecks {
  /** As the service sees it. */
  readonly environment: Environment
  readonly address: string | null
  readonly called: CalledInput | null
}

/** Checks a service: its address, key, description and deliveries. */
export async function* checkService(
  { adapter: service, name, hasCases = true, account }: ConfigService,
  { environment, address, called }: ServiceChecks,
): AsyncGenerator<Finding> {
  yield await checkAddress(environment)
  const isCalled =
    called !== null &&
    (name === null || ((called.service ?? name) === name && takesInput(service, called.input)))
  const problems = checkClient(service, environment)
  if (problems.length > 0) yield createFailedFinding('environment', ...problems)
  yield problems.length > 0
    ? createFinding('key', 'skipped', 'the environment lacks what the service needs')
    : await checkApiKey(environment, service, isCalled)
  if (service !== BUILT_IN_SERVICE)
    yield hasCases
      ? createFinding('description', 'ok', service.name)
      : createFinding('description', 'warning', `${service.name}, without cases`, {
          todo: 'Export `cases` from its module, and run `testService(service, cases)` in your tests.',
        })
  yield await checkBulkSetup(environment, service, name)
  const { apiKey } = environment
  const scope = address === null || apiKey === null ? null : toScope(address, account, apiKey)
  if (isCalled) yield* makeOneCall(service, environment, called.input, scope)
}

/**
 * Checks whether bulk jobs are possible and whether their webhooks would arrive. Off is a choice, not an error.
 * @param name of several services
 */
export async function checkBulkSetup(
  environment: Environment,
  service: Service,
  name: string | null = null,
): Promise<Finding> {
  const bulk = checkBulkAvailability(environment, service)
  if (!bulk.isPossible)
    // A service that has none misses nothing.
    return createFinding('bulk', bulk.todo === null ? 'ok' : 'warning', `off: ${bulk.reason}`, {
      todo: bulk.todo && `To enable it, ${bulk.todo}.`,
    })
  if (bulk.usesWebhook !== true) {
    const todo = bulk.todo && `To get results by webhook, sooner and without further calls, ${bulk.todo}.`
    return createFinding('bulk', 'ok', 'on: its results are in the answer, or fetched', { todo })
  }
  const { publicUrl } = environment
  if (publicUrl === null) return createFinding('bulk', 'ok', 'on: webhooks are received on this machine')
  return deliver(environment, publicUrl, `${publicUrl}/webhooks/${toWebhookPath(name)}`)
}

/**
 * Sends a webhook without a signature, which a receiver must reject. Where nothing answers, it may be
 * that none is started yet, or that the address is reachable only from outside: a warning.
 * @param url for deliveries of the service
 */
async function deliver({ proxies }: Environment, publicUrl: string, url: string): Promise<Finding> {
  let found: string
  try {
    const { status, text } = await sendRequest(url, proxies, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    if (status === 401 && text.includes('signature'))
      return createFinding('bulk', 'ok', `on: webhooks arrive at ${publicUrl}, which answers`)
    if (status < 500)
      return createFailedFinding('bulk', {
        place: 'FILLRATE_PUBLIC_URL',
        found: `${url}: something else answers, with ${status}`,
        expected: 'the webhook receiver of Fillrate, which answers 401 without a signature',
        todo: 'Correct the URL, or what forwards it to FILLRATE_PORT of this machine.',
      })
    found = `status ${status}`
  } catch (error) {
    found = describeNetworkError(error)
  }
  return createFinding('bulk', 'warning', `on: webhooks arrive at ${publicUrl}; ${found} from here`, {
    todo: `While \`fillrate serve\` or a run listens, curl -X POST ${url} must return 401.`,
  })
}

type LookupInput = PersonInput | CompanyInput

/** What is not as it should be, by the outcome of the call. */
const VERDICTS: Readonly<Partial<Record<CaseOutcome, Finding['verdict']>>> = {
  rejected: 'warning',
  transient: 'warning',
  unauthorized: 'error',
  rate_limited: 'warning',
  out_of_credits: 'error',
  unreadable: 'warning',
}

/**
 * Makes one call, which may be billed, and says how each part of the answer is understood. If it proves
 * the key, the trouble that running processes have recorded for it ends.
 * @param scope of the service and its key
 */
export async function* makeOneCall(
  service: Service,
  environment: Environment,
  input: LookupInput,
  scope: string | null = null,
): AsyncGenerator<Finding> {
  const client = openClient(service, environment)
  // The checks before this one have reported what is missing.
  if (client === null)
    return yield createFinding('call', 'skipped', 'the environment lacks what the service needs')
  try {
    const { outcome, record, ...rest } = await understand(service, client, input)
    const parts = Object.entries(rest).filter(([, value]) => value !== undefined)
    yield createFinding(
      'call',
      VERDICTS[outcome as CaseOutcome] ?? 'ok',
      String(outcome).replaceAll('_', ' '),
      {
        todo: parts.map(([name, value]) => `${name}: ${String(value)}`).join('\n') || null,
      },
    )
    if (record !== undefined)
      yield* describeRecord(service, 'domain' in input ? 'company' : 'person', record as object)
    if (outcome === 'found' || outcome === 'not_found' || outcome === 'accepted')
      yield* endKeyRefusal(environment, scope)
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error)
    const expected = 'one that the service describes'
    yield createFailedFinding('call', { place: 'the answer', found, expected, todo: null })
  } finally {
    await client.close()
  }
}

/** A process that has nothing to look up would find out only with its next lookup. */
async function* endKeyRefusal({ databaseUrl }: Environment, scope: string | null): AsyncGenerator<Finding> {
  if (databaseUrl === null || scope === null) return
  const db = openDatabase({ url: databaseUrl, max: 1 })
  try {
    if (await acceptKey(db, scope))
      yield createFinding('key', 'ok', 'accepted again', { todo: 'Running processes go on within seconds.' })
  } catch {
    // The check of the database has said what is wrong with it.
  } finally {
    await db.destroy()
  }
}

/** Which fields of the service the record has, and which of its own the service does not describe. */
function* describeRecord(service: Service, kind: 'person' | 'company', record: object): Generator<Finding> {
  const known = Object.keys(service.fields[kind])
  const values = known.map((field) => [field, valueAtPath(record, field) ?? null] as const)
  const filled = values.flatMap(([field, value]) =>
    value === null ? [] : `${field}: ${JSON.stringify(value)}`,
  )
  const missing = values.flatMap(([field, value]) => (value === null ? field : []))
  const without = missing.length > 0 && filled.length > 0 ? `, without ${missing.join(', ')}` : ''
  yield createFinding('record', 'ok', `${filled.length} of ${known.length} fields${without}`, {
    todo: filled.join('\n') || null,
  })
  const tops = new Set(known.map((field) => field.split('.')[0]))
  const unlisted = Object.keys(record).filter((field) => !tops.has(field))
  if (unlisted.length > 0) yield createFinding('not described', 'ok', unlisted.join(', '))
}

/** Whether a service is called with an input. */
function takesInput(service: Service, input: LookupInput): boolean {
  const kind = kindOfInput(input)
  return service[endpointOf(kind)]?.inputs.has(kind) === true
}

/** What to look up, and at which of several services; null: at each that takes it. */
export interface CalledInput {
  readonly input: LookupInput
  readonly service: string | null
}

/**
 * Reads `email=ada@example.com`; several fields are given one after another, and `service=pdl` beside.
 * @throws UsageError if they name no input
 */
export function parseCall(command: CliCommand, texts: readonly string[]): CalledInput {
  const fields = new Map(
    texts.map((text) => {
      const at = text.indexOf('=')
      return [text.slice(0, at), text.slice(at + 1)] as const
    }),
  )
  const [email, linkedin_url, domain] = ['email', 'linkedin_url', 'domain'].map((name) => fields.get(name))
  const [name, company, service = null] = ['name', 'company', 'service'].map((field) => fields.get(field))
  if (email) return { input: { email }, service }
  if (linkedin_url) return { input: { linkedin_url }, service }
  if (domain) return { input: { domain }, service }
  if (name && company) return { input: { name, company }, service }
  throw new UsageError(
    command,
    '--call needs an input: email=…, linkedin_url=…, domain=…, or name=… company=…',
  )
}
