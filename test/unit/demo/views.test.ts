import { expect, test } from 'vitest'
import { demoExitCode } from '../../../src/demo/demo.ts'
import { exampleLines, fillRateChangeLines, serviceStatsLines } from '../../../src/demo/views/sections.ts'
import { demoCommands, demoNextStepLines } from '../../../src/demo/views/next-steps.ts'
import { Presenter } from '../../../src/demo/presenter.ts'
import { Output, textWidth } from '../../../src/cli/terminal.ts'
import type { RunReport } from '../../../src/runs/report.ts'
import { StatsRecorder } from '../../../src/sandbox/stats.ts'

/** A terminal of 80 columns that keeps what was written. */
function terminal(): { output: Output; written: () => string } {
  let text = ''
  const output = new Output(
    { isTTY: true, columns: 80, write: (more: string) => (text += more) },
    { color: false },
  )
  return { output, written: () => text }
}

const accounts = {
  source: 'accounts',
  eligible: { before: 200, after: 200 },
  columns: [
    {
      column: 'attributes.sub_industry',
      before: 50,
      afterEach: [
        { service: 'acme', filled: 110 },
        { service: 'beta', filled: 150 },
      ],
      after: 150,
    },
  ],
} as const

test('what each service filled stands between what was there and what is blank', () => {
  const lines = fillRateChangeLines([accounts], terminal().output)
  expect(lines[1]).toContain('attributes.sub_industry')
  expect(lines[1]).toMatch(/25\.?0?% +55\.?0?% +75\.?0?% +\+100 +▓{5}█{6}▒{4}░{5}$/)
})

test('nothing on the screen is wider than 80 columns', () => {
  const { output } = terminal()
  const lines = [
    ...fillRateChangeLines([accounts], output),
    ...exampleLines(
      [
        {
          name: 'Anna Berg',
          identifier: '\u00a0Anna.Berg@Alderbridge.Example ',
          cells: [
            { column: 'title', before: '\u200b', after: 'Senior Customer Success Manager of the North' },
            {
              column: 'department',
              before: 'A manually entered value that must not change',
              after: 'x'.repeat(60),
            },
          ],
        },
      ],
      output,
    ),
    ...demoNextStepLines(demoCommands({ npm_lifecycle_event: 'start' }), ['.fillrate'], output),
    ...demoNextStepLines(demoCommands({}), ['.fillrate', '/var/tmp/fillrate-x1y2z3'], output),
  ]
  expect(lines.filter((line) => textWidth(line) > 80)).toEqual([])
})

test('blank values are shown literally, and unchanged ones are marked', () => {
  const cells = [
    { column: 'title', before: '\u00a0', after: 'VP of Sales' },
    { column: 'phone', before: null, after: '+4712345678' },
    { column: 'department', before: 'N/A', after: 'N/A' },
  ]
  const lines = exampleLines([{ name: 'Anna Berg', identifier: ' a@b.example', cells }], terminal().output)
  expect(lines.map((line) => line.trim().replace(/ {2,}/g, ' | '))).toEqual([
    'column | before | after',
    'Anna Berg | looked up by " a@b.example"',
    String.raw`title | "\u00a0" | VP of Sales`,
    'phone | NULL | +4712345678',
    'department | N/A | N/A | (unchanged)',
  ])
})

test('the deliveries add up, and repeated lookups are explained', () => {
  const recorder = new StatsRecorder()
  for (const posted of [200, 200, 200, 401, 401] as const) recorder.answer(posted)
  recorder.counts.jobs.accepted = 2
  recorder.counts.jobs.failed = 1
  recorder.fault('early')
  recorder.counts.calls.accepted = 9
  recorder.tried(['a', 'b'])
  recorder.done(['a', 'b'], 'bulk')
  recorder.done(['a'], 'single')
  const text = serviceStatsLines(
    [recorder.snapshot(0, false), new StatsRecorder().snapshot(0, false)],
    { calls: 9, deliveries: 2 },
    terminal().output,
  ).join('\n')
  expect(text).toContain('9 calls, the same number as Fillrate counted')
  expect(text).toMatch(/5 = 2 accepted \+ 1 duplicates dropped \+ 2 rejected for a wrong\s+signature/)
  expect(text).toMatch(/1 repeated, because the service gave no answer: 1 failed\s+job/)
})

test('a difference between the two counts is reported', () => {
  const text = serviceStatsLines(
    [new StatsRecorder().snapshot(0, false)],
    { calls: 3, deliveries: 0 },
    terminal().output,
  ).join('\n')
  expect(text).toContain('0 calls, but Fillrate counted 3')
})

test('the next commands begin with init, in the order of the documentation', () => {
  for (const env of [{}, { npm_lifecycle_event: 'start' }]) {
    const commands = demoCommands(env).own.flatMap(
      ([words]) => /fillrate (?:-- )?([a-z].*)/.exec(words)?.[1] ?? [],
    )
    expect(commands.filter((one) => one !== 'help')).toEqual([
      'init',
      'check',
      'migrate',
      'plan',
      'run --dry-run --budget 100',
    ])
  }
})

test('the next commands are typed as the demo was', () => {
  const lines = demoNextStepLines(
    demoCommands({ npm_lifecycle_event: 'start' }),
    ['.fillrate'],
    terminal().output,
  ).join('\n')
  expect(lines).toContain('npm run fillrate -- check')
  expect(lines).toContain('cp .env.example .env')
  expect(
    demoNextStepLines(demoCommands({}), ['.fillrate', '/var/tmp/fillrate-x1y2z3'], terminal().output).join(
      '\n',
    ),
  ).toMatch(/^ {2}fillrate check/m)
})

test('a step shows its name, then its result; a failed step leaves nothing', async () => {
  const { output, written } = terminal()
  const stage = new Presenter(output, { silent: false })
  await stage.step(
    'making it',
    async () => 3,
    (n) => `made ${n} of them`,
  )
  expect(written()).toContain('… making it')
  expect(written()).toMatch(/✓ made 3 of them +\d/)
  await expect(stage.step('failing', async () => Promise.reject(new Error('no')), String)).rejects.toThrow(
    'no',
  )
  expect(written().endsWith('\u001b[?25h\u001b[?2026l')).toBe(true)
})

test('a silent presenter writes nothing', async () => {
  const { output, written } = terminal()
  const stage = new Presenter(output, { silent: true })
  stage.title('a', 'b')
  stage.section('c', 'd', ['h'])
  stage.text('e')
  await stage.step('f', async () => 'g', String)
  expect(written()).toBe('')
})

test('rows without a match do not fail the demo; a changed value or a failed run does', () => {
  const run = (status: RunReport['status']) => ({ status }) as RunReport
  const values = (changed: number) => ({ values: 9, before: 'a', after: 'a', changed })
  expect(demoExitCode({ run: run('completed'), manualValues: values(0) })).toBe(0)
  expect(demoExitCode({ run: run('completed'), manualValues: values(1) })).toBe(1)
  expect(demoExitCode({ run: run('interrupted'), manualValues: values(0) })).toBe(130)
  expect(demoExitCode({ run: run('failed'), manualValues: values(0) })).toBe(1)
})
