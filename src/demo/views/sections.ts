import { ROW_STATES, type RowState } from '../../domain/row.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import { formatCount, formatDuration, formatPercent, pluralize } from '../../util/format.ts'
import { renderReport, renderRowStates } from '../../cli/views/report.ts'
import type { ContactExample, DemoResult, FillRateChange } from '../script.ts'
import type { DemoEnvironment } from '../environment.ts'
import { DEMO_SERVICE_NAMES } from '../settings.ts'
import { STEP_LAYOUT, type DemoCommands } from './next-steps.ts'
import type { Presenter } from '../presenter.ts'
import type { SandboxStats } from '../../sandbox/stats.ts'
import { type Output, padText, textWidth, truncate } from '../../cli/terminal.ts'
import { type Field, formatCounts, renderFields, renderTerms } from '../../cli/views/layout.ts'
import { renderCellGroups, renderTable } from '../../cli/views/table.ts'

export function showFaults(presenter: Presenter, { faults }: Pick<SandboxOptions, 'faults'>): void {
  const often = (share = 0): string => `${Number((share * 100).toFixed(1))}%`
  presenter.text(
    `The services fail on purpose: they answer ${often((faults['500'] ?? 0) + (faults['503'] ?? 0) + (faults['503-retry-after'] ?? 0))} of the calls with ` +
      `500 or 503, fail ${often(faults['job-failed'])} of the jobs, deliver ${often(faults.duplicate)} of them twice, ` +
      `${often(faults.early)} too early and ${often(faults['bad-signature'])} with a wrong signature, and leave results out.`,
  )
}

/** The report of the run, and the evidence for it. */
export function showResults(presenter: Presenter, result: DemoResult, { again }: DemoCommands): void {
  const { output } = presenter
  const { run, status, knownLookups, fillRates, services, deliveries } = result
  presenter.lines(renderReport(run, output))
  if (run.rows.waiting > 0) {
    presenter.lines([''])
    presenter.text(
      `${pluralize(run.rows.waiting, 'row waits', 'rows wait')} for what was on its way when a demo before this one was killed: ` +
        `${again} carries on with them in a minute.`,
    )
  }
  if (run.rows.picked === 0 && run.status === 'completed') {
    presenter.lines([''])
    presenter.text(
      `No lookup was repeated: ${pluralize(knownLookups, 'lookup was', 'lookups were')} answered in an earlier demo, and none is due for a refresh. ` +
        'All rows ever picked, by state:',
    )
    presenter.lines(['', ...renderRowStates(sumRowStates(status), output, 'ever picked')])
  }
  presenter.section(
    run.cells.written === 0 ? 'Fill rates' : 'What was filled',
    'fillrate status',
    fillRateChangeLines(fillRates, output),
  )
  const { person, company, bulk } = run.requests
  const counted = { calls: person + company + bulk, deliveries }
  presenter.section(
    'What the services counted',
    null,
    serviceStatsLines(Object.values(services), counted, output),
  )
  showManualValues(presenter, result)
}

export function showInterrupted(presenter: Presenter, { run }: DemoResult, { again }: DemoCommands): void {
  const out = run.jobs.waiting + run.jobs.in_doubt
  const lost =
    out === 0
      ? ''
      : ` The sandbox has lost the ${pluralize(out, 'job')} in progress, which a real service would not: those people are looked up one by one.`
  const { paint } = presenter.output
  presenter.lines([
    `${paint('heading', `Run ${run.run}`)} ${paint('warn', 'interrupted')} after ${formatDuration(run.duration_ms)}, its state is saved`,
    '',
    ...renderRowStates(run.rows, presenter.output),
    '',
  ])
  presenter.text(`${again} continues where it stopped and repeats no lookup.${lost}`)
}

function sumRowStates(status: DemoResult['status']): { picked: number } & Record<RowState, number> {
  const sources = Object.values(status.rows)
  const sum = (of: (rows: (typeof sources)[number]) => number): number =>
    sources.reduce((all, rows) => all + of(rows), 0)
  const states = Object.fromEntries(ROW_STATES.map((state) => [state, sum((rows) => rows[state])]))
  return { picked: sum((rows) => rows.total), ...(states as Record<RowState, number>) }
}

function showManualValues(presenter: Presenter, { manualValues, examples }: DemoResult): void {
  const { paint } = presenter.output
  const { values, before, after, changed } = manualValues
  const ends = (checksum: string): string => `${checksum.slice(0, 8)}…`
  presenter.section('Manually entered values are unchanged', null, [
    changed === 0
      ? `  ${paint('good', '✓')} ${pluralize(values, 'value')} in the CRM before the run, none changed.`
      : `  ${paint('bad', '✗')} ${formatCount(changed)} of ${pluralize(values, 'value')} that were in the CRM before the run have changed.`,
    `    Their checksum: ${ends(before)} before, ${ends(after)} after.`,
    ...(examples.length === 0
      ? []
      : [
          '',
          `  ${pluralize(examples.length, 'person', 'people')}, before and after:`,
          '',
          ...exampleLines(examples, presenter.output),
        ]),
  ])
}

/** The parts that keep running, and how to try the commands on them, in a folder of their own. */
export function showKept(
  presenter: Presenter,
  { tryOut }: DemoCommands,
  kept: Pick<DemoEnvironment, 'variables' | 'services'> & {
    readonly dashboard: string
    readonly folder: string
  },
): void {
  const { output } = presenter
  const { variables, services, dashboard, folder } = kept
  presenter.section('It keeps running', null, [
    ...renderFields(output, [
      ['Dashboard', `${dashboard}/`],
      // PGSSLMODE may be set for another server: the variable has more than a person needs.
      ['Database', variables['DATABASE_URL']?.replace(/\?.*$/, '') ?? ''],
      ...Object.entries(services).map(([name, { url }]): Field => [`Service ${name}`, url]),
    ]),
    '',
    '  Next, in another terminal: your first configuration, for this CRM',
    '',
    ...renderTerms(output, [[`cd ${folder}`, 'its .env has the addresses'], ...tryOut], STEP_LAYOUT),
    '',
    `  ${output.paint('quiet', 'Ctrl-C stops everything; the data stay.')}`,
  ])
}

/** What the services counted together, and the faults that they injected, beside what Fillrate counted. */
export function serviceStatsLines(
  all: readonly SandboxStats[],
  counted: { readonly calls: number; readonly deliveries: number },
  output: Output,
): string[] {
  const stats = addNumbers(
    all.map(({ calls, inputs, deliveries, faults, jobs }) => ({ calls, inputs, deliveries, faults, jobs })),
  )
  const { calls, inputs, deliveries, faults, jobs } = stats
  if (calls.accepted + calls.refused === 0 && counted.calls === 0) return ['  No calls.']
  const failures = { 500: faults['500'] ?? 0, 503: (faults['503'] ?? 0) + (faults['503-retry-after'] ?? 0) }
  const received = deliveries.answers['200'] ?? 0
  const counts = {
    stored: counted.deliveries,
    repeats: Math.max(0, received - counted.deliveries),
    refused: deliveries.answers['401'] ?? 0,
  }
  const events = { early: faults.early ?? 0, failed: jobs.failed }
  return renderFields(output, [
    [
      'Calls',
      `${pluralize(calls.accepted, 'call')}, ${calls.accepted === counted.calls ? 'the same number as Fillrate counted' : `but Fillrate counted ${formatCount(counted.calls)}`}`,
      calls.refused === 0
        ? 'none over the limit'
        : `${formatCount(calls.refused)} over the limit, answered 429`,
    ],
    ['Lookups', `${formatCount(inputs.distinct)} distinct`, describeRepeats(stats)],
    failures[500] + failures[503] > 0 && [
      'Failures',
      formatCounts(failures, { 500: 'calls answered 500', 503: 'answered 503' }),
      'each retried later',
    ],
    deliveries.attempts > 0 && [
      'Deliveries',
      `${formatCount(deliveries.attempts)} = ${formatCounts(
        counts,
        { stored: 'accepted', repeats: 'duplicates dropped', refused: 'rejected for a wrong signature' },
        ' + ',
      )}`,
      formatCounts(events, {
        early: 'arrived before the job was accepted',
        failed: 'reported a failed job',
      }),
    ],
  ])
}

/** Adds objects of numbers up, field by field. */
function addNumbers<Part extends object>(parts: readonly Part[]): Part {
  const names = new Set(parts.flatMap((part) => Object.keys(part)))
  const add = (values: readonly unknown[]): unknown => {
    const objects = values.filter((value) => typeof value === 'object' && value !== null)
    if (objects.length > 0) return addNumbers(objects)
    return values.reduce((sum: number, value) => sum + (typeof value === 'number' ? value : 0), 0)
  }
  return Object.fromEntries(
    [...names].map((name) => [name, add(parts.map((part) => (part as Record<string, unknown>)[name]))]),
  ) as Part
}

/** Why lookups were repeated: the service had not answered them. */
function describeRepeats({ inputs, jobs, faults }: Pick<SandboxStats, 'inputs' | 'jobs' | 'faults'>): string {
  if (inputs.requested_more_than_once === 0) return 'none repeated'
  const why = formatCounts(
    { failed: jobs.failed, missing: faults['missing-result'] ?? 0 },
    { failed: jobs.failed === 1 ? 'failed job' : 'failed jobs', missing: 'missing results' },
    ', ',
  )
  return `${formatCount(inputs.requested_more_than_once)} repeated, because the service gave no answer: ${why}`
}

/** Rows before and after. Blank values are shown literally, because they differ. */
export function exampleLines(examples: readonly ContactExample[], output: Output): string[] {
  const { paint } = output
  const edge = output.columns ?? Number.POSITIVE_INFINITY
  const renderTitle = ({ name, identifier }: ContactExample): string[] => [
    truncate(
      `  ${paint('heading', name)}  ${paint('quiet', 'looked up by')} ${formatCell(identifier)}`,
      edge,
    ),
  ]
  const isKept = ({ before, after }: ContactExample['cells'][number]): boolean => before === after
  return renderCellGroups(output, examples, renderTitle, [
    { title: 'column', text: (cell) => cell.column },
    { title: 'before', text: (cell) => formatCell(cell.before), minColumns: 8 },
    {
      title: 'after',
      text: (cell) => `${formatCell(cell.after)}${isKept(cell) ? '  (unchanged)' : ''}`,
      minColumns: 8,
      style: (cell) => (isKept(cell) ? null : 'good'),
    },
  ])
}

/** Quoted if it looks empty, or has spaces at its ends. */
function formatCell(value: string | null): string {
  if (value === null) return 'NULL'
  return value === value.trim() && value !== '' && !/[\u200b\ufeff]/.test(value)
    ? value
    : JSON.stringify(value).replaceAll('\u00a0', '\\u00a0').replaceAll('\u200b', '\\u200b')
}

const BAR_WIDTH = 20

/** What was filled, column by column, with a bar for cells filled before, filled now, and still blank. */
export function fillRateChangeLines(all: readonly FillRateChange[], output: Output): string[] {
  const names = Math.max(
    ...all.flatMap(({ source, columns }) => [source, ...columns.map((one) => one.column)]).map(textWidth),
  )
  const share = (filled: number, rows: number): number => (rows === 0 ? 0 : filled / rows)
  return [
    ...all.flatMap(({ source, eligible, columns }) => [
      ...renderTable(
        output,
        columns.map(({ column, before, after, afterEach }) => ({
          column,
          before: share(before, eligible.before),
          afterEach: afterEach.map(({ filled }) => share(filled, eligible.after)),
          after: share(after, eligible.after),
          gained: after - before,
        })),
        [
          { title: padText(source, names), text: (line) => line.column },
          { title: 'before', text: (line) => formatPercent(line.before), number: true },
          ...DEMO_SERVICE_NAMES.map((name, turn) => ({
            title: `+ ${name}`,
            text: (line: { readonly afterEach: readonly number[] }) =>
              formatPercent(line.afterEach[turn] ?? 0),
            number: true,
          })),
          {
            title: 'filled',
            text: (line) => (line.gained === 0 ? '·' : `+${formatCount(line.gained)}`),
            number: true,
          },
          {
            title: `of ${formatCount(eligible.after)} rows`,
            text: (line) => gainBar([line.before, ...line.afterEach.slice(0, -1), line.after]),
            minColumns: 8,
          },
        ],
        { indent: 2 },
      ),
      '',
    ]),
    output.paint(
      'quiet',
      `  ${BEFORE} filled before   ${GAINED.map((mark, turn) => `${mark} by ${DEMO_SERVICE_NAMES[turn]}`).join('   ')}   ${BLANK} still blank`,
    ),
  ]
}

const BEFORE = '▓'
const GAINED = ['█', '▒']
const BLANK = '░'

/** Uses different characters, so that it works without colour. @param shares filled before, and after each service */
function gainBar(shares: readonly number[]): string {
  let drawn = 0
  const marks = shares.map((share, n) => {
    const until = Math.max(drawn, Math.round(share * BAR_WIDTH))
    const part = (n === 0 ? BEFORE : (GAINED[n - 1] ?? '█')).repeat(until - drawn)
    drawn = until
    return part
  })
  return marks.join('') + BLANK.repeat(BAR_WIDTH - drawn)
}
