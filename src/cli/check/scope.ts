import type { Environment } from '../../config/environment.ts'
import { toServiceAddress } from '../../service/dispatcher.ts'
import { toKeyId } from '../../service/api-keys.ts'
import type { Database } from '../../store/open.ts'
import * as runs from '../../store/runs.ts'
import * as services from '../../store/services.ts'
import { finding, type Finding } from './finding.ts'

const NAME = 'scope'

/** Whether this database is another service's as well, or another key's at this moment. Says nothing where it is not. */
export async function* checkScope(
  db: Database,
  { baseUrl, apiKeys }: Pick<Environment, 'baseUrl' | 'apiKeys'>,
): AsyncGenerator<Finding> {
  if (baseUrl === null || apiKeys.length === 0) return
  const address = toServiceAddress(baseUrl)
  const known = (await services.listServices(db)).map(({ host }) => host)
  if (known.length > 0 && !known.includes(address))
    yield finding(
      NAME,
      'warning',
      `this database holds answers of ${known.join(', ')}, and none of ${address}`,
      {
        todo:
          `They are not used for ${address}: what is asked there is paid there. If the service has only moved, run ` +
          `update fillrate.services set host = '${address}' where host = '${known[0]}';`,
      },
    )
  const own = new Set(apiKeys.map((key) => `${address} ${toKeyId(key)}`))
  const others = (await runs.listRunning(db)).filter(({ scope }) => scope !== null && !own.has(scope))
  if (others.length > 0)
    yield finding(
      NAME,
      'warning',
      `with another service or key, ${others.map(({ id, scope }) => `run ${id} (${scope})`).join(', ')} is at work`,
      {
        todo: 'Its rows and lookups are left to it. If that is not meant, correct FILLRATE_BASE_URL or FILLRATE_API_KEY there or here.',
      },
    )
}
