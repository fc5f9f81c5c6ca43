import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { readGuide, writeGuideConfig } from '../../support/guide.ts'
import { openCommandLine } from '../cli/command-line.ts'

// docs/guides/mirrors.md, on tables, a log and an uploader in the form of Heroku Connect's.

const { database, cli, here, sandbox } = await openCommandLine({
  prepare: async (pool) => pool.query(await readFile('test/fixtures/guides/mirror.sql', 'utf8')),
  service: { notFoundShare: 0, missingShare: 0 },
})
const guide = readGuide('mirrors')
const [config = ''] = guide.configs
const [rejections = ''] = guide.sql
await writeGuideConfig(cli.folder, config)

const json = async (...words: string[]) => {
  const { stdout, stderr } = await here([...words, '--json'], { LOG_LEVEL: 'silent' })
  return JSON.parse(stdout === '' ? stderr : stdout)
}
const calls = (): number => sandbox.stats().calls.accepted
const uploads = (): Promise<number> => database.count(`salesforce._trigger_log where state = 'NEW'`)

/** Uploads what is new; Salesforce refuses a level that is not in its list. */
const upload = (): Promise<unknown> =>
  database.query(`begin;
    set local salesforce.is_uploader = 'yes';
    update salesforce._trigger_log set state = 'FAILED', sf_message = 'bad value for restricted picklist field: ' || (values::jsonb ->> 'level__c')
     where state = 'NEW' and values::jsonb ->> 'level__c' = 'Director';
    update salesforce._trigger_log set state = 'SUCCESS' where state = 'NEW';
    update salesforce.contact c set systemmodstamp = now(), _hc_lastop = case l.state when 'FAILED' then 'FAILED' else 'UPDATED' end,
           _hc_err = l.sf_message from salesforce._trigger_log l where l.record_id = c.id;
    commit`)

test('check is satisfied, and leaves out what has no key in Salesforce', async () => {
  const { code, stdout } = await here(['check'])
  expect([code, stdout]).toEqual([0, expect.stringContaining('✓ source contacts')])
  const plan = await json('plan')
  // Of 36 with a key: three have objected, two are deleted.
  expect(plan.sources[0]).toMatchObject({ rows: 31 })
})

test('a row costs one upload, however many columns, and one that is not written none', async () => {
  const run = await json('run', '--route', 'sync')
  expect(await uploads()).toBe(run.rows.enriched)
  expect(run.cells.written).toBeGreaterThan(run.rows.enriched)
  await upload()
  const before = calls()
  const again = await json('run', '--route', 'sync')
  expect([await uploads(), calls() - before, again.cells.written]).toEqual([0, 0, 0])
})

test('a reload, which numbers the rows anew, costs neither a lookup nor a write', async () => {
  await database.query(`begin;
    set local salesforce.is_uploader = 'yes';
    create temporary table copy on commit drop as select * from salesforce.contact;
    truncate salesforce.contact;
    insert into salesforce.contact
      select (jsonb_populate_record(null::salesforce.contact, to_jsonb(copy) || jsonb_build_object('id', 1000 + id))).* from copy;
    commit`)
  const before = calls()
  const run = await json('run', '--route', 'sync')
  expect([run.status, calls() - before, await uploads()]).toEqual(['completed', 0, 0])
  expect((await json('status')).deleted).toEqual([])
  await database.query(`update salesforce._trigger_log set record_id = record_id + 1000`)
})

test('what Salesforce rejects later is listed with its run, and written again after a change of the map', async () => {
  const found = await database.query<{ sfid: string; sf_message: string; run: string }>(rejections)
  const directors = await database.count(`salesforce.contact where level__c = 'Director'`)
  expect(directors).toBeGreaterThan(0)
  expect(found.length).toBe(directors)
  expect(found[0]).toMatchObject({
    sf_message: 'bad value for restricted picklist field: Director',
    run: '1',
  })

  await writeGuideConfig(cli.folder, config.replace("director: 'Director'", "director: 'Head'"), 'changed.ts')
  await database.query(`update salesforce.contact set level__c = null where level__c = 'Director';
    truncate salesforce._trigger_log`)
  const before = calls()
  await json('remap', 'contacts', '--config', 'changed.ts')
  expect(calls()).toBe(before)
  expect(await database.count(`salesforce.contact where level__c = 'Head'`)).toBe(directors)
  expect(await uploads()).toBe(directors)
  await upload()
  expect(await database.query(rejections)).toEqual([])
})

test('undo uploads each row once, and gives the typed title back', async () => {
  await database.query('truncate salesforce._trigger_log')
  const { changes } = await json('undo', '1', '--yes')
  expect(await uploads()).toBe(changes.restored)
  expect(await database.count(`salesforce.contact where title = 'Typed by hand'`)).toBe(4)
})
