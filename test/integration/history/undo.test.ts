import { describe, expect, test } from 'vitest'
import type { UndoReport } from '../../../src/actions/undo/undo.ts'
import { countStates, createCrm, crmConfig, personSource } from '../../support/crm.ts'
import { useFreshHarness, useHarness } from '../../support/harness.ts'

describe('a run', () => {
  const harness = useFreshHarness({ config: crmConfig, prepare: ({ pool }) => createCrm(pool, 600) })

  /** The parts of the total. */
  const sumOf = ({ changes }: UndoReport): number =>
    Object.values(changes).reduce((sum, n) => sum + n, 0) - changes.total

  test('an undo restores the table to the byte, and no run writes the same again', async () => {
    const before = await harness.checksum('crm.contacts')
    const run = await harness.run()
    const after = await harness.checksum('crm.contacts')
    expect(after).not.toBe(before)

    const plan = await harness.undo(run.run, { dryRun: true })
    expect(plan).toMatchObject({
      run: null,
      dry_run: true,
      changes: { restored: run.rows.enriched, kept: 0 },
    })
    expect(await harness.checksum('crm.contacts')).toBe(after)

    const report = await harness.undo(run.run)
    expect(report).toMatchObject({ undoes: run.run, status: 'completed', kept: [], failed: [] })
    expect(report.changes).toEqual({ ...plan.changes })
    expect(report.changes.total).toBe(sumOf(report))
    expect(report.cells).toEqual({ restored: run.cells.written, touched: run.rows.enriched, kept: 0 })
    expect(await harness.checksum('crm.contacts')).toBe(before)
    expect(await harness.count('fillrate.rows where last_written is not null')).toBe(0)

    const calls = harness.calls()
    const next = await harness.run()
    expect(next.rows.picked).toBe(0)
    expect(harness.calls()).toBe(calls)
    expect(await harness.checksum('crm.contacts')).toBe(before)
    expect(await countStates(harness)).toEqual({
      unchanged: run.rows.enriched + run.rows.unchanged,
      not_found: run.rows.not_found,
    })
  })

  test('an undo can be undone, and so on', async () => {
    const before = await harness.checksum('crm.contacts')
    const run = await harness.run()
    const after = await harness.checksum('crm.contacts')
    const written = await harness.checksum('(select key, last_written from fillrate.rows)')
    let last = run.run
    for (const [expected, enriched] of [
      [before, 0],
      [after, run.rows.enriched],
      [before, 0],
      [after, run.rows.enriched],
    ] as const) {
      const report = await harness.undo(last)
      expect(report).toMatchObject({ changes: { restored: run.rows.enriched, total: run.rows.enriched } })
      expect(await harness.checksum('crm.contacts')).toBe(expected)
      expect((await countStates(harness))['enriched'] ?? 0).toBe(enriched)
      expect((await harness.run()).rows.picked).toBe(0)
      last = report.run ?? 0
    }
    expect(await harness.checksum('(select key, last_written from fillrate.rows)')).toBe(written)
  })
})

const always = (field: string, more: object = {}): object => ({ field, policy: 'always', ...more })

/** One table of people and one of companies, with a key of two columns, and one with a uuid key. */
const config = {
  sources: {
    people: {
      kind: 'person',
      table: 'crm."Partners"',
      key: ['tenant', 'id'],
      where: 't.is_person',
      inputs: { email: 't.email' },
      outputs: {
        Title: always('title'),
        score: always('title', { sql: '$confidence' }),
        exact: always('title', { sql: '$confidence * 100' }),
        tags: always('title', { sql: 'array[$value]' }),
        raw: always('title', { sql: "json_build_object('by', $value)" }),
        'attributes.job.title': always('title'),
        'attributes.job.level.name': always('seniority'),
        'attributes.department': always('department'),
        phone_number: always('phone', { sql: 'substr($value, 4)', group: 'phone' }),
        phone_country: always('phone', { sql: 'left($value, 3)', group: 'phone' }),
      },
      touch: { enriched_at: 'now()', 'attributes.enriched': "'yes'" },
    },
    companies: {
      kind: 'company',
      table: 'crm."Partners"',
      inputs: { domain: 't.website' },
      outputs: { Title: always('industry'), 'attributes.employees': always('employee_count') },
      touch: { enriched_at: 'now()' },
    },
    members: personSource('crm.members', { title: 'title', score: always('title', { sql: '$confidence' }) }),
  },
  budget: 'unlimited',
} as const

describe('cells and keys of every type', () => {
  const harness = useHarness({
    config,
    sandbox: { missingShare: 0 },
    prepare: async ({ pool }) => {
      await pool.query(`
        create schema crm;
        create table crm."Partners" (
          tenant uuid, id bigint, is_person boolean not null, email text, website text, "Title" text, score double precision,
          exact numeric, tags text[], raw json, attributes jsonb, phone_number varchar(20), phone_country text,
          enriched_at timestamptz, primary key (tenant, id));
        create table crm.members (id uuid primary key, email text, title text, score numeric, updated_at timestamptz);
        create function crm.stamp() returns trigger language plpgsql as
          $$ begin new.updated_at := clock_timestamp(); return new; end $$;
        create trigger stamp before update on crm.members for each row execute function crm.stamp();
        insert into crm."Partners"
        select md5((n % 3)::text)::uuid, n, n % 4 > 0, 'person' || n || '@example.com', 'company' || n || '.example',
               (array['Typed', '', null])[n % 3 + 1], (array[0.1, null])[n % 2 + 1],
               (array[12.50, 1000.00, null, 0.1000])[n % 4 + 1], (array['{a,"b c"}', '{}', null])[n % 3 + 1]::text[],
               (array['{"a":  1.0, "a": 2, "b": 1e2}', null, 'null', '[]'])[n % 4 + 1]::json,
               (array['{}', null, '{"job": null}', '{"job": {"title": "x", "level": {}}, "n": 12.500, "big": 12345678901234567890}',
                      '{"job": {"title": 1.50}}', 'null'])[n % 6 + 1]::jsonb,
               (array['123', null])[n % 2 + 1], (array['+47', null])[n % 2 + 1],
               (array['2020-01-01T00:00:00.000001Z', null])[n % 2 + 1]::timestamptz
          from generate_series(1, 240) n;
        insert into crm.members (id, email) select md5(n::text)::uuid, 'person' || n || '@example.com' from generate_series(1, 60) n`)
    },
  })

  test('every type of cell and key is restored to the byte, redone, and restored again', async () => {
    const partners = (): Promise<string> => harness.checksum('crm."Partners"')
    // Values set by the table's own trigger belong to the trigger.
    const members = (): Promise<string> =>
      harness.checksum('(select id, email, title, score from crm.members)')
    const before = [await partners(), await members()]
    const report = await harness.run()
    const after = [await partners(), await members()]
    expect(after[0]).not.toBe(before[0])
    expect(after[1]).not.toBe(before[1])
    expect(
      await harness.count(`fillrate.changes where after ? 'phone_number' and after ? 'phone_country'`),
    ).toBeGreaterThan(50)

    let run = report.run
    for (const expected of [before, after, before]) {
      const undone = await harness.undo(run)
      expect(undone).toMatchObject({ kept: [], failed: [], changes: { restored: undone.changes.total } })
      expect([await partners(), await members()]).toEqual(expected)
      run = undone.run ?? 0
    }
  })

  test('a group stays whole: if one of its cells was changed since, the others stay too', async () => {
    await harness.query(
      `insert into crm."Partners" (tenant, id, is_person, email) values (md5('x')::uuid, 1, true, 'solo@example.com')`,
    )
    const report = await harness.run({ sources: ['people'] })
    expect(report.rows.picked).toBe(1)
    const cells = (): Promise<string> =>
      harness.scalar(
        `select concat_ws('|', phone_number, phone_country, "Title") from crm."Partners" where email = 'solo@example.com'`,
      )
    const [number = ''] = (await cells()).split('|')
    expect(number).not.toBe('')
    await harness.query(`update crm."Partners" set phone_country = '+46' where email = 'solo@example.com'`)
    const undone = await harness.undo(report.run)
    const key = JSON.stringify([await harness.scalar(`md5('x')::uuid`), '1'])
    expect(undone.kept).toEqual([
      {
        source: 'people',
        key,
        columns: ['phone_number', 'phone_country'],
        written_by: null,
        inputs_changed: false,
      },
    ])
    expect(await cells()).toBe(`${number}|+46`)
  })
})
