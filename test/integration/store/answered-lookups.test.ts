import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import * as writeBackQueue from '../../../src/store/write-back-queue.ts'
import { randomUUID } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { beforeEach, expect, test } from 'vitest'
import { requeueSingly } from '../../../src/store/lookups.ts'
import { requeueForRecord } from '../../../src/store/remap.ts'
import { renameStoredSource } from '../../../src/store/retire-source.ts'
import { claimRows } from '../../../src/store/rows.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { BULK } from '../../support/bulk.ts'
import { foundResult } from '../../support/found-result.ts'
import { wantLookups } from '../../support/want-lookups.ts'

// Write-back finds each row that waits for an answered lookup, whichever statement has made it so. A row that none finds waits for ever,
// and nothing in Postgres could notice: so every statement that changes a lookup or a row is listed here.

const database = useTestDatabase()
beforeEach(() =>
  database.query(`
    truncate fillrate.lookups, fillrate.answered_lookups, fillrate.jobs, fillrate.runs, fillrate.rows
      restart identity cascade;
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    values ('manual', '{s}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour')`),
)

const RUN = 1
const LOOKUP = 1
const HOUR = 3_600_000
const OF_RUN = { run: RUN, service: 0, leaseMs: HOUR }
const QUESTION = { kind: 'email', key: 'a@b.example', input: { email: 'a@b.example' } } as const

/** Lets a row wait for the one lookup. */
const pick = (key: string): Promise<unknown> =>
  inTransaction(database.db, async (tx) => {
    const [lookup] = await wantLookups(tx, [QUESTION], 's', RUN, [RUN])
    const row = { key, inputHash: '1', settledAt: null, state: 'waiting', reason: null, notes: null } as const
    return claimRows(tx, 's', RUN, [RUN], [{ ...row, lookup: lookup?.id ?? 0 }], 0)
  })

const found = () => foundResult(LOOKUP, { title: 'Cook' })

const lease = async (): Promise<string> => {
  const token = randomUUID()
  const leased = await leases.leaseLookups(database.db, { ...OF_RUN, bulk: BULK, limit: 1, token })
  expect(leased).toHaveLength(1)
  return token
}

const call = async (): Promise<void> => {
  const token = await lease()
  expect(await leases.completeLookups(database.db, [{ ...found(), token }])).toMatchObject({ unstored: [] })
}

const submit = async (): Promise<string> => {
  const options = { ...OF_RUN, ids: [randomUUID()], least: 1, token: randomUUID(), deadlineMs: HOUR }
  const [job] = await jobs.createJobs(database.db, options)
  return job?.id ?? ''
}

/** @param isOpen whether the job is not given up before */
const deliver = async (isOpen: boolean): Promise<void> => {
  const job = await submit()
  const retry = { reason: 'late', mayBeBilled: true, attempts: null }
  if (!isOpen) await inTransaction(database.db, (tx) => requeueSingly(tx, [job], retry))
  const result = { ...found(), job, isOpen, reserved: null }
  expect(await inTransaction(database.db, (tx) => leases.completeFromDelivery(tx, [result]))).toHaveLength(1)
}

/** What write-back claims of a source; it finishes the rows, or fails to and leaves them, and looks what it has written of the queue. */
const writeBack = (source: string, isFinished: boolean) =>
  inTransaction(database.db, async (tx) => {
    const { rows, entries } = await writeBackQueue.claimForWriteBack(tx, source, 10)
    const finished = rows.map(({ key, ctid }): writeBackQueue.FinishedRow => {
      const nothing = { reason: null, change: null, notes: null, nextAt: null, skipped: [] }
      return { ...nothing, key, ctid, state: 'unchanged', cells: { written: 0, protected: 0, skipped: 0 } }
    })
    if (isFinished) await writeBackQueue.finishRows(tx, source, finished)
    await writeBackQueue.dequeueWritten(tx, entries)
    return rows.map(({ key, lookup }) => ({ key, lookup }))
  })

interface Case {
  readonly when: string
  /** The statements of which it is a case: the table, and the function. */
  readonly of: readonly string[]
  readonly step: () => Promise<unknown>
  /** The row that is found. Default: row 1 of source s. */
  readonly key?: string
  readonly source?: string
}

const CASES: readonly Case[] = [
  { when: 'a call is answered', of: ['lookups completeLookups'], step: () => pick('1').then(call) },
  {
    when: 'a call is answered whose lease was lost',
    of: ['lookups storeLateRecords'],
    step: async () => {
      await pick('1')
      const token = await lease()
      await leases.releaseByToken(database.db, token)
      await leases.completeLookups(database.db, [{ ...found(), token }])
    },
  },
  {
    when: 'a job is delivered',
    of: ['lookups storeDelivered'],
    step: () => pick('1').then(() => deliver(true)),
  },
  {
    when: 'a job is delivered that was given up',
    of: ['lookups storeDelivered'],
    step: () => pick('1').then(() => deliver(false)),
  },
  {
    when: 'a job is given up after the last attempt',
    of: ['lookups requeueSingly'],
    step: async () => {
      await pick('1')
      const job = await submit()
      const retry = { reason: 'late', mayBeBilled: true, attempts: 0 }
      await inTransaction(database.db, (tx) => requeueSingly(tx, [job], retry))
    },
  },
  {
    when: 'a row is picked whose lookup was answered and written before',
    of: ['lookups upsertLookups', 'rows claimRows'],
    step: async () => {
      await pick('1').then(call)
      await writeBack('s', true)
      await pick('2')
    },
    key: '2',
  },
  {
    when: 'a stored record is written anew',
    of: ['rows requeueForRecord'],
    step: async () => {
      await pick('1').then(call)
      await writeBack('s', true)
      const settledAt = await database.scalar<string>('select settled_at::text from fillrate.rows')
      const row = { key: '1', inputHash: '1', settledAt, lookup: LOOKUP, onlyBlanks: false }
      await inTransaction(database.db, (tx) => requeueForRecord(tx, 's', RUN, [row]))
    },
  },
  {
    when: 'a row was locked, and is due again',
    of: ['rows postponeRows'],
    step: async () => {
      await pick('1').then(call)
      await inTransaction(database.db, (tx) => writeBackQueue.postponeRows(tx, 's', ['1'], 'locked'))
      expect(await writeBack('s', true)).toEqual([])
      await writeBackQueue.dequeueOrphaned(database.db, 10)
      await database.query('update fillrate.rows set due_at = now()')
    },
  },
  {
    when: 'its source has another name',
    of: ['rows renameRows'],
    step: async () => {
      await pick('1').then(call)
      await inTransaction(database.db, (tx) => renameStoredSource(tx, 's', 'renamed'))
    },
    source: 'renamed',
  },
]

test.each(CASES)('write-back finds a row, until it is written, when $when', async (one) => {
  await one.step()
  const { source = 's', key = '1' } = one
  const row = { key, lookup: LOOKUP }
  expect(await writeBack(source, false)).toEqual([row])
  await writeBackQueue.dequeueOrphaned(database.db, 10)
  expect(await writeBack(source, true)).toEqual([row])
  expect(await database.count('fillrate.answered_lookups')).toBe(0)
})

/** The other statements: table, functions, and why write-back has to find no row after them. */
const OTHERS = `
  lookups addUnconfirmedCalls adoptLookups createFromAsyncAnswer endUnpaidJobs insertJobs: it is not answered
  lookups leaseSql extendLookupLeases releaseByToken releaseInDoubt releaseLookups: it is not answered
  lookups renameRows requeueMembers: it is not answered
  lookups deleteRecords makeRowsDue storeMalformedResponses: it is answered as before, or not
  rows beginAnew deleteSuppressions eraseCells makeRowsDue restoreRows: it waits as before, or not
  rows revertRows storeLateRecords updateDeletedRows: it waits as before, or not
  rows endRowsOfLeftSources eraseLookups eraseLookups finishRows markRowsDeleted: it does not wait
  rows moveToNextStep restoreLookups resumeAtLaterStep: it waits for no lookup, and is picked`
  .trim()
  .split('\n')
  .flatMap((line) => {
    const [table, ...functions] = line.replace(/:.*/, '').trim().split(' ')
    return functions.map((name) => `${table} ${name}`)
  })

const COMMENT = /^ *(?:\/?\*|\/\/).*$/gm
const DECLARATION = /^(?:export )?(?:async )?(?:function|const) (\w+)/gm
const CHANGE =
  /(?:\b(?:update|insert into|merge into) |(?:updateTable|insertInto|mergeInto)\(')fillrate\.(\w+)/g

/** What changes or uses something in the sources: its first group, and the function that it is in. */
const findInSources = (pattern: RegExp): string[] =>
  globSync('src/**/*.ts').flatMap((file) => {
    const text = readFileSync(file, 'utf8').replaceAll(COMMENT, '')
    return [...text.matchAll(pattern)].map((match) => {
      const before = text.slice(0, match.index)
      return `${match[1]} ${[...before.matchAll(DECLARATION)].at(-1)?.[1]}`
    })
  })

test('each statement that changes a lookup or a row has a case, or a reason to have none', () => {
  const changes = findInSources(CHANGE)
  const listed = [...new Set(CASES.flatMap((one) => one.of)), ...OTHERS]
  expect(changes.filter((one) => /^(?:lookups|rows) /.test(one)).toSorted()).toEqual(listed.toSorted())
  // Only one way leads into the queue, and each that takes it has a case.
  expect(changes.filter((one) => one.startsWith('answered_lookups '))).toEqual([
    'answered_lookups enqueueWriteBackSql',
  ])
  const queueing = findInSources(/(\$\{enqueueWriteBackSql)\(/g).map((one) => one.split(' ')[1])
  const cases = new Set(CASES.flatMap((one) => one.of).map((one) => one.split(' ')[1]))
  expect(queueing.filter((name) => !cases.has(name))).toEqual([])
})
