import type { LookupResult } from '../../src/store/lookup-leases.ts'

/** What a call of a lookup has found, good for an hour. */
export const foundResult = (id: number, record: Record<string, unknown>) =>
  ({
    id,
    state: 'found',
    reason: null,
    attempts: 1,
    notBefore: null,
    requestedAt: new Date(),
    resolvedAt: new Date(),
    refreshAt: new Date(Date.now() + 3_600_000),
    record,
    confidence: 0.9,
  }) satisfies Omit<LookupResult, 'token'>
