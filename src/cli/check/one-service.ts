import type { ServiceCase } from '../../actions/service-cases.ts'
import type { Config } from '../../config/config.ts'
import { type Environment, variableOf } from '../../config/environment.ts'
import { loadServiceCases } from '../../config/load.ts'
import type { ConfigProblems } from '../../config/problems.ts'
import { readServiceEnvironment } from '../../config/service-environment.ts'
import { BUILT_IN_SERVICE } from '../../domain/service/built-in.ts'
import type { Log } from '../../util/log.ts'
import { RECEIVER_VARIABLES } from '../command.ts'
import { checkBulkSetup, describeUnsigned } from './bulk.ts'
import { checkDescribed } from './cases.ts'
import { createFailedFinding, createFinding, type Finding, findInvalid } from './finding.ts'
import { checkApiKey, checkService } from './service.ts'
import { type CalledInput, makeOneCall, takesInput } from './service-call.ts'

interface ServiceChecks {
  /** As the service sees it. */
  readonly environment: Environment
  readonly address: string | null
  /** Invalid variables; a check that needs one says only so. */
  readonly invalid: ConfigProblems | null
  /** The module of its description, which may export cases. */
  readonly module: string | null
  readonly called: CalledInput | null
  readonly openLog: () => Promise<Log>
}

/** Checks a service: its address, key, description and deliveries. */
export async function* checkOneService(view: Config, checks: ServiceChecks): AsyncGenerator<Finding> {
  const { environment, invalid } = checks
  const service = view.adapter
  const name = view.serviceName
  const needs = (check: string, ...variables: string[]): Finding | null =>
    findInvalid(invalid, check, variables)
  const [url, key, auth, secret] = (['BASE_URL', 'API_KEY', 'AUTH', 'WEBHOOK_SECRET'] as const).map((name) =>
    variableOf(environment, name),
  ) as [string, string, string, string]
  const withoutService = needs('service', url, 'HTTP_PROXY', 'HTTPS_PROXY')
  yield withoutService ?? (await checkService(environment))
  const { problems } = readServiceEnvironment(service, environment)
  if (problems.length > 0) yield createFailedFinding('environment', ...problems)
  yield (
    needs('key', key, auth) ??
      (problems.length > 0
        ? createFinding('key', 'skipped', 'the environment lacks what the service needs')
        : await checkApiKey(environment, service))
  )
  if (service !== BUILT_IN_SERVICE) {
    const cases = checks.module === null ? null : await loadServiceCases(checks.module)
    yield await checkDescribed(service, cases as readonly ServiceCase[] | null)
  }
  yield (
    needs('bulk', ...RECEIVER_VARIABLES, secret, url) ??
      (await checkBulkSetup(environment, service, await checks.openLog(), name))
  )
  const unsigned = describeUnsigned(environment, service)
  if (unsigned !== null) yield unsigned
  const { called } = checks
  const isCalled = called !== null && (name === null || (called.service ?? name) === name)
  if (isCalled && (name === null || takesInput(service, called.input)))
    yield* makeOneCall(service, environment, called.input, checks.address)
}
