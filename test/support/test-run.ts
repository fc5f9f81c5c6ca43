import { randomUUID } from 'node:crypto'
import type { Database } from '../../src/store/open.ts'
import { insertRun } from '../../src/store/runs.ts'

interface TestRun {
  readonly sources?: readonly string[]
  readonly route?: 'auto' | 'sync' | 'bulk'
  readonly leaseMs?: number
  readonly scopes?: Readonly<Record<string, string>>
}

/** Begins a run without bounds, as a process does that lives. @returns its id */
export const beginRun = (
  db: Database,
  { sources = ['contacts'], route = 'auto', leaseMs = 600_000, scopes }: TestRun = {},
): Promise<number> =>
  insertRun(db, {
    trigger: 'manual',
    sources: [...sources],
    options: { limit: null, budget: null, where: null, route },
    owner: 'test',
    token: randomUUID(),
    leaseMs,
    ...(scopes && { scopes }),
  })
