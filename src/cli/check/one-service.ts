import type { ServiceCase } from '../../actions/service-cases.ts'
import type { Config } from '../../config/config.ts'
import type { Environment } from '../../config/environment.ts'
import { loadServiceCases } from '../../config/load.ts'
import { readServiceEnvironment } from '../../config/service-environment.ts'
import { BUILT_IN_SERVICE } from '../../domain/service/built-in.ts'
import type { Log } from '../../util/log.ts'
import { checkBulkSetup, describeUnsigned } from './bulk.ts'
import { checkDescribed } from './cases.ts'
import { createFailedFinding, createFinding, type Finding } from './finding.ts'
import { checkApiKey, checkService } from './service.ts'
import { type CalledInput, makeOneCall, takesInput } from './service-call.ts'

interface ServiceChecks {
  /** As the service sees it. */
  readonly environment: Environment
  readonly address: string | null
  /** The module of its description, which may export cases. */
  readonly module: string | null
  readonly called: CalledInput | null
  readonly openLog: () => Promise<Log>
}

/** Checks a service: its address, key, description and deliveries. */
export async function* checkOneService(view: Config, checks: ServiceChecks): AsyncGenerator<Finding> {
  const { environment } = checks
  const service = view.adapter
  const name = view.serviceName
  yield await checkService(environment)
  const { problems } = readServiceEnvironment(service, environment)
  if (problems.length > 0) yield createFailedFinding('environment', ...problems)
  yield problems.length > 0
    ? createFinding('key', 'skipped', 'the environment lacks what the service needs')
    : await checkApiKey(environment, service)
  if (service !== BUILT_IN_SERVICE) {
    const cases = checks.module === null ? null : await loadServiceCases(checks.module)
    yield await checkDescribed(service, cases as readonly ServiceCase[] | null)
  }
  yield await checkBulkSetup(environment, service, await checks.openLog(), name)
  const unsigned = describeUnsigned(environment, service)
  if (unsigned !== null) yield unsigned
  const { called } = checks
  const isCalled = called !== null && (name === null || (called.service ?? name) === name)
  if (isCalled && (name === null || takesInput(service, called.input)))
    yield* makeOneCall(service, environment, called.input, checks.address)
}
