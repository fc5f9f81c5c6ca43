import { understand, type CaseOutcome } from '../../actions/service-cases.ts'
import { proveKeys } from '../../actions/try-service.ts'
import type { Environment } from '../../config/environment.ts'
import { readServiceEnvironment } from '../../config/service-environment.ts'
import type { CompanyInput, PersonInput } from '../../domain/service/adapter.ts'
import { valueAtPath } from '../../domain/service/credits.ts'
import type { Service } from '../../domain/service/service.ts'
import { describeTrouble } from '../../domain/trouble.ts'
import { toKeyId } from '../../service/api-keys.ts'
import { EnrichmentClient } from '../../service/client.ts'
import { toServiceAddress } from '../../service/dispatcher.ts'
import { openDatabase } from '../../store/open.ts'
import { createFailedFinding, createFinding, type Finding, type FindingVerdict } from './finding.ts'

type LookupInput = PersonInput | CompanyInput

const VERDICTS: Readonly<Record<CaseOutcome, FindingVerdict>> = {
  found: 'ok',
  not_found: 'ok',
  accepted: 'ok',
  rejected: 'warning',
  transient: 'warning',
  unauthorized: 'error',
  rate_limited: 'warning',
  out_of_credits: 'error',
  unreadable: 'warning',
  pending: 'ok',
  results: 'ok',
  more: 'ok',
  gone: 'warning',
  unpaid: 'error',
}

/**
 * Makes one call, which may be billed, and says how each part of the answer is understood. If it proves the key, the
 * trouble that running processes have recorded for it ends.
 */
export async function* makeOneCall(
  service: Service,
  environment: Environment,
  input: LookupInput,
  address = environment.baseUrl === null ? null : toServiceAddress(environment.baseUrl),
): AsyncGenerator<Finding> {
  const { baseUrl, apiKeys, auth, proxies } = environment
  const [apiKey] = apiKeys
  // The checks before this one have reported what is missing.
  if (baseUrl === null || apiKey === undefined)
    return yield createFinding('call', 'skipped', 'the address or the key of the service is missing')
  const { variables, problems } = readServiceEnvironment(service, environment)
  if (problems.length > 0)
    return yield createFinding('call', 'skipped', 'the environment lacks what the service needs')
  const client = new EnrichmentClient({
    baseUrl,
    apiKey,
    auth,
    proxies,
    variables,
    service,
  })
  try {
    const { outcome, record, ...rest } = await understand(service, client, input)
    const parts = Object.entries(rest).filter(([, value]) => value !== undefined)
    yield createFinding('call', VERDICTS[outcome as CaseOutcome], String(outcome).replaceAll('_', ' '), {
      todo: parts.map(([name, value]) => `${name}: ${String(value)}`).join('\n') || null,
    })
    if (record !== undefined)
      yield* describeRecord(service, 'domain' in input ? 'company' : 'person', record as object)
    if (outcome === 'found' || outcome === 'not_found' || outcome === 'accepted')
      yield* endKeyTroubles(environment, address)
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error)
    const expected = 'one that the service describes'
    yield createFailedFinding('call', { place: 'the answer', found, expected, todo: null })
  } finally {
    await client.close()
  }
}

/** A process that has nothing to look up would find out only with its next lookup. */
async function* endKeyTroubles(
  { databaseUrl, apiKeys }: Environment,
  address: string | null,
): AsyncGenerator<Finding> {
  if (databaseUrl === null || address === null) return
  const db = openDatabase({ url: databaseUrl, max: 1 })
  // Of several keys, the trouble is named after the last one that was rejected.
  const scopes = apiKeys.map((key) => `${address} ${toKeyId(key)}`)
  try {
    for (const trouble of await proveKeys(db, 'fillrate check', scopes))
      yield createFinding('trouble', 'ok', `over: ${describeTrouble(trouble, Date.now()).title}`, {
        todo: 'Running processes go on within seconds.',
      })
  } catch {
    // The check of the database has said what is wrong with it.
  } finally {
    await db.destroy()
  }
}

/** Which fields of the service the record has, and which of its own the service does not describe. */
function* describeRecord(service: Service, kind: 'person' | 'company', record: object): Generator<Finding> {
  const known = Object.keys(service.shapes[kind])
  const filled = known
    .map((field) => [field, valueAtPath(record, field) ?? null] as const)
    .filter(([, value]) => value !== null)
    .map(([field, value]) => `${field}: ${JSON.stringify(value)}`)
  yield createFinding('record', 'ok', `${filled.length} of ${known.length} fields`, {
    todo: filled.join('\n') || null,
  })
  const tops = new Set(known.map((field) => field.split('.')[0]))
  const unlisted = Object.keys(record).filter((field) => !tops.has(field))
  if (unlisted.length > 0) yield createFinding('not described', 'ok', unlisted.join(', '))
}

/** Whether a service is called with an input. */
export const takesInput = ({ person, company }: Service, input: LookupInput): boolean =>
  'domain' in input
    ? company !== null
    : person?.inputs.has(
        'email' in input ? 'email' : 'linkedinUrl' in input ? 'linkedin_url' : 'name_company',
      ) === true

/** What to look up, and at which of several services; null: at each that takes it. */
export interface CalledInput {
  readonly input: LookupInput
  readonly service: string | null
}

/** Reads `email=ada@example.com`, and `service=pdl` beside. Null: it names no input. */
export function parseCall(texts: readonly string[]): CalledInput | null {
  const input = parseCallInput(texts)
  const service = texts.find((text) => text.startsWith('service='))?.slice('service='.length) ?? null
  return input && { input, service }
}

/** Reads `email=ada@example.com`; several fields are given one after another. Null: it names no input. */
function parseCallInput(texts: readonly string[]): LookupInput | null {
  const fields = new Map(
    texts.map((text) => {
      const at = text.indexOf('=')
      return [text.slice(0, at), text.slice(at + 1)] as const
    }),
  )
  const [email, linkedinUrl, domain] = ['email', 'linkedin_url', 'domain'].map((name) => fields.get(name))
  if (email) return { email }
  if (linkedinUrl) return { linkedinUrl }
  if (domain) return { domain }
  const [name, company] = [fields.get('name'), fields.get('company')]
  return name && company ? { name, company } : null
}
