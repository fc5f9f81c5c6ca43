import { parseConfig } from '../../../src/config/parse.ts'

export const HOUR = 3_600_000

export const RULES = {
  attempts: 50,
  concurrency: 32,
  bulkMinimum: 1,
  bulkDeadlineMs: HOUR,
  bulkGraceMs: 0,
  callTimeoutMs: 30_000,
  refreshAfterMs: 1_000 * HOUR,
  retryNotFoundAfterMs: 1_000 * HOUR,
  // Nothing waits for so long that it fails: the table is slow by its trigger alone.
  sourceTimeoutMs: 20_000,
  leftWaitMs: 0,
}

export const config = parseConfig(
  {
    sources: {
      worlds: {
        kind: 'person',
        table: 'worlds',
        inputs: { email: 't.email' },
        outputs: { title: 'title', phone: { field: 'phone', policy: 'tracked' } },
      },
    },
  },
  null,
)

/** The live service, and another that makes its records up: no lookup of one is ever answered by the other. */
export const SERVICES = [0, 1] as const
export type Service = (typeof SERVICES)[number]

export const scopeOf = (service: Service): string => `service-${service}.example key`

/** A question, as the model names it: what one service is asked about an address is nothing to the other. */
export const questionOf = (key: string, service: Service): string => (service === 0 ? key : `${key} at 1`)

/** What a service knows of an address: nobody else's, and no other service's, could be taken for it. */
export const record = (key: string, service: Service) => ({
  email: key,
  title: `${service === 0 ? 'T' : 'U'}:${key}`,
  phone: `${service === 0 ? 'P' : 'Q'}:${key}`,
  confidence: 0.9,
})

/** The addresses of world 7 begin with `w7-`. */
export const worldOf = (key: string): number => Number(/^w(\d+)-/.exec(key)?.[1])

/** The condition under which a pick reads these worlds alone. */
export const where = (worlds: readonly number[]): string => `t.world = any ('{${worlds.join(',')}}'::int[])`
