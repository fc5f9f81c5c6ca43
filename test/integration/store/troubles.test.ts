import { beforeEach, expect, test } from 'vitest'
import type { TroubleCode } from '../../../src/domain/trouble.ts'
import type { ObservedTrouble } from '../../../src/domain/trouble-facts.ts'
import {
  listOpenTroubles,
  listRecentTroubles,
  reportTroubles,
  type TroubleChanges,
} from '../../../src/store/troubles.ts'
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

test('a trouble begins once and ends once, however many processes report it at the same moment', async () => {
  const reportAll = (observed: readonly ObservedTrouble[]) =>
    Promise.all(Array.from({ length: 8 }, (_, n) => report(observed, { reporter: `process ${n}` })))
  const begins = (await reportAll([observe()])).flatMap(({ begun }) => begun)
  expect(begins).toMatchObject([{ code: 'service_down', subject: SCOPE, severity: 'error', endedAt: null }])
  expect(await listOpenTroubles(database.db)).toMatchObject([{ details: { reason: 'connection refused' } }])

  const ends = (await reportAll([])).flatMap(({ ended }) => ended)
  expect(ends).toMatchObject([{ id: begins[0]?.id, since: begins[0]?.since, endedAt: expect.any(Date) }])
  expect(await listOpenTroubles(database.db)).toEqual([])
  expect(await listRecentTroubles(database.db, 10)).toEqual(ends)
})

test('it begins when its cause did, and keeps its latest details', async () => {
  const since = agoMs(60_000)
  await report([observe({ since })])
  expect(codesOf(await report([observe({ details: { waiting: 12 } })]))).toEqual(NOTHING)
  expect(await listOpenTroubles(database.db)).toMatchObject([{ since, details: { waiting: 12 } }])
})

test('a report ends only troubles of its codes, and only those that are not observed', async () => {
  await report([observe(), observe({ subject: 'other 1' }), observe({ code: 'jobs_overdue' })])
  const others: TroubleCode[] = ['schedule_late']
  expect(codesOf(await reportTroubles(database.db, { reporter: 'a', codes: others }, []))).toEqual(NOTHING)
  expect(codesOf(await report([observe(), observe({ code: 'jobs_overdue' })]))).toEqual({
    begun: [],
    ended: ['service_down'],
  })
  expect((await listOpenTroubles(database.db)).map(({ code }) => code)).toEqual([
    'service_down',
    'jobs_overdue',
  ])
})

test('older facts neither end a trouble that was seen since, nor begin again one that has ended', async () => {
  const before = agoMs(1_000)
  await report([observe()])
  expect(codesOf(await report([], { reporter: 'slow', at: before }))).toEqual(NOTHING)
  expect(codesOf(await report([]))).toEqual({ begun: [], ended: ['service_down'] })
  expect(codesOf(await report([observe()], { reporter: 'slow', at: before }))).toEqual(NOTHING)
  expect(codesOf(await report([observe()]))).toEqual({ begun: ['service_down'], ended: [] })
})

test('what only one process knows is ended by that process, or when it is not seen any more', async () => {
  const reportOwn = (reporter: string, observed: readonly ObservedTrouble[]) =>
    reportTroubles(database.db, { reporter, codes: ['reload_refused'] }, observed)
  const refused = (reporter: string) => observe({ code: 'reload_refused', subject: reporter })
  await reportOwn('a', [refused('a')])
  expect(codesOf(await reportOwn('b', [refused('b')]))).toEqual({ begun: ['reload_refused'], ended: [] })
  expect((await reportOwn('b', [])).ended).toMatchObject([{ subject: 'b' }])
  await database.query(
    `update fillrate.troubles set seen_at = now() - interval '61 seconds', began_at = now() - interval '2 minutes'`,
  )
  expect((await reportOwn('b', [])).ended).toMatchObject([{ subject: 'a' }])
})

test('a trouble that could not be reported while it lasted is recorded once, as over', async () => {
  const away = (fromMs: number, untilMs: number) =>
    reportTroubles(database.db, { reporter: 'a', codes: [] }, [
      observe({ code: 'database_away', subject: '', since: agoMs(fromMs), endedAt: agoMs(untilMs) }),
    ])
  expect(await away(50_000, 1_000)).toMatchObject({ begun: [], ended: [{ endedAt: expect.any(Date) }] })
  expect(codesOf(await away(49_000, 500))).toEqual(NOTHING)
  expect(await listOpenTroubles(database.db)).toEqual([])
  expect(await listRecentTroubles(database.db, 10)).toHaveLength(1)
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

test('what comes and goes is one trouble, and ends when it was not seen for a while', async () => {
  const reportWait = (observed: readonly ObservedTrouble[]) =>
    reportTroubles(database.db, { reporter: 'a', codes: ['calls_waiting'] }, observed)
  await reportWait([observe({ code: 'calls_waiting' })])
  expect(codesOf(await reportWait([]))).toEqual(NOTHING)
  await database.query(
    `update fillrate.troubles set seen_at = now() - interval '61 seconds', began_at = now() - interval '2 minutes'`,
  )
  expect(codesOf(await reportWait([]))).toEqual({ begun: [], ended: ['calls_waiting'] })
})
