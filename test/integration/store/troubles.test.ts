import { beforeEach, expect, test } from 'vitest'
import type { ObservedTrouble } from '../../../src/domain/trouble-facts.ts'
import { listOpenTroubles, reportTroubles, type TroubleChanges } from '../../../src/store/troubles.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()
beforeEach(() => database.query('truncate fillrate.troubles'))

const SCOPE = 'api.example.com 62af8704'
const agoMs = (ms: number) => new Date(Date.now() - ms)
const observe = (over: Partial<ObservedTrouble> = {}): ObservedTrouble => ({
  code: 'service_down',
  subject: SCOPE,
  since: agoMs(5_000),
  details: { reason: 'connection refused' },
  ...over,
})
const report = (observed: readonly ObservedTrouble[], over: { reporter?: string; at?: Date } = {}) =>
  reportTroubles(database.db, { reporter: 'a', codes: ['service_down', 'jobs_overdue'], ...over }, observed)
const codesOf = ({ begun, ended }: TroubleChanges) => ({
  begun: begun.map(({ code }) => code),
  ended: ended.map(({ code }) => code),
})
const NOTHING = { begun: [], ended: [] }

test('it begins when its cause did, and keeps its latest details', async () => {
  const since = agoMs(60_000)
  await report([observe({ since })])
  expect(codesOf(await report([observe({ details: { waiting: 12 } })]))).toEqual(NOTHING)
  expect(await listOpenTroubles(database.db)).toMatchObject([{ since, details: { waiting: 12 } }])
})

test('older facts neither end a trouble that was seen since, nor begin again one that has ended', async () => {
  const before = agoMs(1_000)
  await report([observe()])
  expect(codesOf(await report([], { reporter: 'slow', at: before }))).toEqual(NOTHING)
  expect(codesOf(await report([]))).toEqual({ begun: [], ended: ['service_down'] })
  expect(codesOf(await report([observe()], { reporter: 'slow', at: before }))).toEqual(NOTHING)
  expect(codesOf(await report([observe()]))).toEqual({ begun: ['service_down'], ended: [] })
})

test('errors come first, then the oldest', async () => {
  await reportTroubles(database.db, { reporter: 'a', codes: [] }, [
    observe({ code: 'shared_key', since: agoMs(90_000) }),
    observe({ code: 'service_down', since: agoMs(10_000) }),
    observe({ code: 'key_refused', since: agoMs(20_000) }),
  ])
  expect((await listOpenTroubles(database.db)).map(({ code }) => code)).toEqual([
    'key_refused',
    'service_down',
    'shared_key',
  ])
})
