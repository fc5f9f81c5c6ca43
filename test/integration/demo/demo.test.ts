import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, type TestContext } from 'vitest'
import { z } from 'zod'
import { removeDemo } from './remove.ts'
import { showSmallDemo, SMALL } from './small-demo.ts'

const number = z.number()
const service = z.object({
  counts: z.object({
    calls: z.object({ accepted: number, refused: number }),
    inputs: z.object({ distinct: number, requested_more_than_once: number }),
    jobs: z.object({ accepted: number, failed: number }),
    deliveries: z.object({ badly_signed_accepted: number }),
    faults: z.record(z.string(), number),
  }),
})
const report = z.object({
  status: z.string(),
  crm: z.object({ accounts: number, contacts: number, made_now: z.boolean() }),
  run: z.object({
    rows: z.record(z.string(), number),
    lookups: z.object({ requested: number, in_doubt: number }),
    services: z.array(
      z.object({
        service: z.string(),
        lookups: z.object({ requested: number, found: number }),
        cells: z.object({ written: number }),
        spend: z.object({ cost: z.object({ amount: number, currency: z.string() }).nullable() }),
      }),
    ),
    requests: z.object({ person: number, company: number, bulk: number, throttled: number }),
    cells: z.object({ written: number }),
  }),
  fill_rate: z.record(
    z.string(),
    z.object({
      eligible: number,
      columns: z.record(
        z.string(),
        z.object({ before: number, after: number, after_each: z.object({ acme: number, beta: number }) }),
      ),
    }),
  ),
  rows: z.record(z.string(), z.record(z.string(), number)),
  deliveries: z.object({ taken: number }),
  services: z.object({ acme: service, beta: service }),
  manual_values: z.object({ values: number, before: z.string(), after: z.string(), changed: number }),
  examples: z.array(z.object({ name: z.string(), cells: z.array(z.unknown()) })),
})

const newFolder = async (onTestFinished: TestContext['onTestFinished']): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-demo-'))
  onTestFinished(() => removeDemo(folder))
  return folder
}

const demo = async (folder: string) => {
  const { exit, stdout } = await showSmallDemo({ folder, json: true })
  return { exit, ...report.parse(JSON.parse(stdout)) }
}

const sumOf = (states: Record<string, number>, total: string): number =>
  Object.entries(states).reduce((sum, [state, rows]) => (state === total ? sum : sum + rows), 0)

test.concurrent('fills blank cells only, and repeats no lookup when run again', async ({
  onTestFinished,
}) => {
  const folder = await newFolder(onTestFinished)
  const first = await demo(folder)
  expect(first).toMatchObject({
    exit: 0,
    status: 'completed',
    crm: { accounts: SMALL.accounts, made_now: true },
  })

  // Every row ends in one state, and the states add up.
  expect(sumOf(first.run.rows, 'picked')).toBe(first.run.rows['picked'])
  expect(first.run.rows).toMatchObject({ waiting: 0, failed: 0, rejected: 0, write_rejected: 0 })

  // Every column gains, and the cells written are those gained.
  const columns = Object.values(first.fill_rate).flatMap((source) => Object.values(source.columns))
  expect(columns.every(({ before, after }) => after > before)).toBe(true)
  expect(columns.reduce((sum, { before, after }) => sum + after - before, 0)).toBe(first.run.cells.written)

  // The fill rate of each column rises with the first service, and with the second to what it is in the end.
  expect(columns.filter(({ before, after_each }) => after_each.acme <= before)).toEqual([])
  expect(columns.filter(({ after_each }) => after_each.beta <= after_each.acme)).toEqual([])
  expect(columns.filter(({ after, after_each }) => after_each.beta !== after)).toEqual([])
  const [acme, beta] = first.run.services
  expect([acme?.service, beta?.service]).toEqual(['acme', 'beta'])
  expect(beta?.lookups.requested).toBeLessThan(acme?.lookups.requested ?? 0)
  expect((beta?.spend.cost?.amount ?? 0) / (beta?.cells.written ?? 0)).toBeGreaterThan(
    (acme?.spend.cost?.amount ?? 0) / (acme?.cells.written ?? 0),
  )

  // The services count the same calls, and repeats only of lookups that they left unanswered.
  const { person, company, bulk, throttled } = first.run.requests
  const counts = Object.values(first.services).map((one) => one.counts)
  const sum = (of: (one: (typeof counts)[number]) => number) => counts.reduce((all, one) => all + of(one), 0)
  expect({
    accepted: sum(({ calls }) => calls.accepted),
    refused: sum(({ calls }) => calls.refused),
    throttled,
  }).toEqual({ accepted: person + company + bulk, refused: 0, throttled: 0 })
  expect(sum(({ inputs }) => inputs.distinct)).toBe(first.run.lookups.requested)
  for (const { inputs, jobs, faults } of counts)
    expect(inputs.requested_more_than_once).toBeLessThanOrEqual(
      100 * jobs.failed + (faults['missing-result'] ?? 0),
    )
  expect(first.deliveries.taken).toBe(sum(({ jobs }) => jobs.accepted))
  expect(sum(({ deliveries }) => deliveries.badly_signed_accepted)).toBe(0)

  expect(first.manual_values).toMatchObject({ changed: 0, after: first.manual_values.before })
  expect(first.manual_values.values).toBeGreaterThan(1_000)
  expect(first.examples).toHaveLength(5)

  const second = await demo(folder)
  expect(second).toMatchObject({ exit: 0, status: 'completed', crm: { made_now: false } })
  for (const { counts: again } of Object.values(second.services))
    expect(again.calls).toEqual({ accepted: 0, refused: 0 })
  expect(second.run.rows['picked']).toBe(0)
  expect(second.manual_values).toMatchObject({ changed: 0, after: second.manual_values.before })
  expect(Object.values(second.rows).reduce((sum, source) => sum + (source['total'] ?? 0), 0)).toBe(
    first.run.rows['picked'],
  )

  // With --keep it serves the dashboard and prints the addresses, until it is interrupted.
  const interrupt = new AbortController()
  let dashboard: Promise<string> | null = null
  const shown = await showSmallDemo({
    folder,
    json: false,
    keep: true,
    signal: interrupt.signal,
    onText: (text) => {
      const url = /Dashboard +(http:\S+)[\s\S]*Ctrl-C stops/.exec(text)?.[1]
      if (url === undefined) return
      dashboard ??= fetch(url)
        .then((response) => response.text())
        .finally(() => interrupt.abort())
    },
  })
  expect(await dashboard).toContain('contacts')
  expect(shown.exit).toBe(0)
  expect(shown.stdout).toContain('No lookup was repeated')
  expect(shown.stdout).toContain('No calls.')
  expect(shown.stdout).toMatch(/cd \.fillrate\/try[\s\S]*fillrate init[\s\S]*Stopped/)
  expect(await readFile(join(folder, '.fillrate/try/.env'), 'utf8')).toMatch(/^DATABASE_URL='postgres:/)
})

test.concurrent('saves its state and stops Postgres when interrupted; the next demo continues', async ({
  onTestFinished,
}) => {
  const folder = await newFolder(onTestFinished)
  const interrupt = new AbortController()
  const { exit, stdout } = await showSmallDemo({
    folder,
    json: true,
    signal: interrupt.signal,
    onFrame: (frame) => {
      if (/[1-9]\d* (?:looked up|lookups)/.test(frame)) interrupt.abort()
    },
  })
  const broken = report.parse(JSON.parse(stdout))
  expect(exit).toBe(130)
  expect(broken.status).toBe('interrupted')
  expect(broken.run.rows['waiting']).toBeGreaterThan(0)
  expect(sumOf(broken.run.rows, 'picked')).toBe(broken.run.rows['picked'])

  const rest = await demo(folder)
  expect(rest).toMatchObject({ exit: 0, status: 'completed' })
  for (const source of Object.values(rest.rows)) expect(source['waiting']).toBe(0)
  expect(rest.manual_values.changed).toBe(0)
})

test.concurrent('a killed demo leaves a state that the next one can use', async ({ onTestFinished }) => {
  const folder = await newFolder(onTestFinished)
  const script = new URL('killed-demo.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [script, folder], { stdio: 'inherit' })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])

  const rest = await demo(folder)
  expect(rest).toMatchObject({ exit: 0, status: 'completed', crm: { made_now: false } })
  for (const source of Object.values(rest.rows)) {
    expect(source['waiting']).toBe(0)
    expect(sumOf(source, 'total')).toBe(source['total'])
  }
  expect(rest.manual_values.changed).toBe(0)
})
