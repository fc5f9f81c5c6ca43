import { setTimeout as sleep } from 'node:timers/promises'
import { migrate } from '../../../src/store/migrate.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { startLeaderProcess } from '../../../test/support/leader-processes.ts'
import { onServer } from '../../../test/support/server.ts'
import type { Measured } from '../targets.ts'
import type { HttpCase } from './cases.ts'
import { startService } from './service.ts'
import type { ServiceCounts } from './service.ts'

let made = 0

/** Plays a case in real time: several processes with one Postgres, of which the leader calls. */
export async function playOverHttp(postgresUrl: string, one: HttpCase, processes: number): Promise<Measured> {
  const name = `rate_${process.pid}_${++made}`
  const databaseUrl = Object.assign(new URL(postgresUrl), { pathname: `/${name}` }).href
  await onServer(postgresUrl, (client) => client.query(`create database ${name}`))
  const db = openDatabase({ url: databaseUrl, max: 1 })
  await migrate(db)
  await db.destroy()
  const service = await startService(one.service)
  const callers = await Promise.all(
    Array.from({ length: processes }, (_, index) =>
      startLeaderProcess({
        databaseUrl,
        baseUrl: service.url,
        apiKey: 'key',
        concurrency: one.concurrency,
        name: `c${index}`,
      }),
    ),
  )
  await sleep(one.durationMs)
  const counts = await service.counts()
  // Stop all at once: none may become the leader for the last moment.
  await Promise.all(callers.map((caller) => caller.kill()))
  await service.stop()
  await onServer(postgresUrl, (client) => client.query(`drop database ${name} with (force)`))
  return measure(one, counts)
}

/** Fixed windows are measured from the start of one to the start of another, everything else from the first call on. */
function measure(
  { service }: HttpCase,
  { acceptedAt, windowStarts, rejected, now }: ServiceCounts,
): Measured {
  const share = (from: number, to: number): number => {
    const used = acceptedAt.filter((at) => at >= from && at < to).length
    return used / ((service.limit * (to - from)) / service.windowMs)
  }
  const [start = Number.NaN] = acceptedAt
  const isFixed = windowStarts.length > 0
  const end = isFixed ? (windowStarts.at(-1) ?? Number.NaN) : now
  const steadyFrom = isFixed ? (windowStarts[3] ?? Number.NaN) : start + 3 * service.windowMs
  return {
    whole: share(start, end),
    steady: share(steadyFrom, end),
    calls: acceptedAt.length + rejected,
    rejected,
  }
}
