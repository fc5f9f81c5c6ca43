import { ROW_STATES, type RowState } from '../../domain/row.ts'
import type { Plan } from '../../actions/plan/plan.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import { formatCount, formatDuration, pluralize } from '../../util/format.ts'
import { planLines } from '../../cli/render/plan.ts'
import { reportLines } from '../../cli/render/report.ts'
import { rowLines } from '../../cli/render/row-lines.ts'
import type { ContactExample, DemoResult } from '../script.ts'
import { fillRateChangeLines } from './fill-rates.ts'
import { type DemoCommands, demoNextStepLines } from './next-steps.ts'
import type { Presenter } from '../presenter.ts'
import type { SandboxStats } from '../../sandbox/stats.ts'
import type { Output } from '../../cli/output.ts'
import { type Field, fields } from '../../cli/render/fields.ts'
import { sum } from '../../cli/render/sum.ts'
import { table } from '../../cli/render/table.ts'
import { cut } from '../../cli/render/text.ts'

export function showFaults(stage: Presenter, { faults }: Pick<SandboxOptions, 'faults'>): void {
  const often = (share = 0): string => `${Number((share * 100).toFixed(1))}%`
  stage.text(
    `The service goes wrong on purpose: it answers ${often((faults['500'] ?? 0) + (faults['503'] ?? 0) + (faults['503-retry-after'] ?? 0))} of the calls with ` +
      `500 or 503, fails ${often(faults['job-failed'])} of the jobs, delivers ${often(faults.duplicate)} of them twice, ` +
      `${often(faults.early)} too early and ${often(faults['bad-signature'])} with a wrong signature, and leaves results out.`,
  )
}

export function showPlan(stage: Presenter, plan: Plan): void {
  stage.heading('What a run would ask', 'fillrate plan')
  stage.lines(planLines(compactPlan(plan), stage.output, { budget: 'unlimited', bulkOff: null }))
}

/** The run itself, and where it had nothing to do, why. */
export function showRun(
  stage: Presenter,
  { run, status, knownLookups }: DemoResult,
  { again }: DemoCommands,
): void {
  stage.lines(reportLines(run, stage.output))
  if (run.rows.waiting > 0) {
    stage.lines([''])
    stage.text(
      `${pluralize(run.rows.waiting, 'row waits', 'rows wait')} for what was on its way when a demo before this one was killed: ` +
        `${again} carries on with them in a minute.`,
    )
  }
  if (run.rows.picked > 0 || run.status !== 'completed') return
  stage.lines([''])
  stage.text(
    `It asked nothing again: ${pluralize(knownLookups, 'question was', 'questions were')} answered in a demo before this one, and none is due. ` +
      'All rows that were ever picked, by how they ended:',
  )
  stage.lines(['', ...rowLines(sumRowStates(status), stage.output, 'ever picked')])
}

export function showInterrupted(stage: Presenter, { run }: DemoResult, { again }: DemoCommands): void {
  const out = run.jobs.waiting + run.jobs.in_doubt
  const lost =
    out === 0
      ? ''
      : ` The sandbox has forgotten the ${pluralize(out, 'job')} that ${out === 1 ? 'was' : 'were'} out, which a real service would not: those people are asked one by one.`
  const { paint } = stage.output
  stage.lines([
    `${paint('heading', `Run ${run.run}`)} ${paint('warn', 'interrupted')} after ${formatDuration(run.duration_ms)}, its state is saved`,
    '',
    ...rowLines(run.rows, stage.output),
    '',
  ])
  stage.text(`${again} carries on where it was, and asks nothing twice.${lost}`)
}

function sumRowStates(status: DemoResult['status']): { picked: number } & Record<RowState, number> {
  const sources = Object.values(status.rows)
  const sum = (of: (rows: (typeof sources)[number]) => number): number =>
    sources.reduce((all, rows) => all + of(rows), 0)
  const states = Object.fromEntries(ROW_STATES.map((state) => [state, sum((rows) => rows[state])]))
  return { picked: sum((rows) => rows.total), ...(states as Record<RowState, number>) }
}

export function showFillRates(stage: Presenter, { fillRates, run }: DemoResult): void {
  stage.heading(run.cells.written === 0 ? 'How it stands' : 'What was filled', 'fillrate status')
  stage.lines(fillRateChangeLines(fillRates, stage.output))
}

export function showServiceStats(stage: Presenter, { service, run, deliveries }: DemoResult): void {
  stage.heading('What the service counted')
  const { person, company, bulk } = run.requests
  stage.lines(serviceStatsLines(service, { calls: person + company + bulk, deliveries }, stage.output))
}

export function showManualValues(stage: Presenter, { typedValues, examples }: DemoResult): void {
  const { paint } = stage.output
  const { values, before, after, changed } = typedValues
  stage.heading('What people typed stays')
  const ends = (checksum: string): string => `${checksum.slice(0, 8)}…`
  stage.lines([
    changed === 0
      ? `  ${paint('good', '✓')} ${pluralize(values, 'value')} in the CRM before the run, and none was touched.`
      : `  ${paint('bad', '✗')} ${formatCount(changed)} of ${pluralize(values, 'value')} that were in the CRM before the run are not there now.`,
    `    Their checksum: ${ends(before)} before, ${ends(after)} after.`,
  ])
  if (examples.length > 0)
    stage.lines([
      '',
      `  ${pluralize(examples.length, 'person', 'people')}, before and after:`,
      '',
      ...exampleLines(examples, stage.output),
    ])
}

export function showNextSteps(stage: Presenter, typed: DemoCommands, folders: readonly string[]): void {
  stage.heading('What to type next')
  stage.lines(demoNextStepLines(typed, folders, stage.output))
}

/** Reasons of each source that are told by name. */
const NAMED_REASONS = 2

/** The plan with only the most common reasons why a row can't be asked about; the others together. Pure. */
export function compactPlan(plan: Plan): Plan {
  return {
    ...plan,
    sources: plan.sources.map((source) => {
      const reasons = Object.entries(source.invalid_input).sort(([, a], [, b]) => b - a)
      const rest = reasons.slice(NAMED_REASONS)
      if (rest.length < 2) return source
      const together = rest.reduce((sum, [, rows]) => sum + rows, 0)
      return {
        ...source,
        invalid_input: Object.fromEntries([
          ...reasons.slice(0, NAMED_REASONS),
          [`${pluralize(rest.length, 'other reason')}`, together],
        ]),
      }
    }),
  }
}

/** What the service counted by itself, and what it did wrong on purpose. */
export function serviceStatsLines(
  stats: SandboxStats,
  options: { readonly calls: number; readonly deliveries: number },
  output: Output,
): string[] {
  const { calls, inputs, deliveries, faults, jobs } = stats
  if (calls.accepted + calls.refused === 0 && options.calls === 0) return ['  Nothing: it was not called.']
  const failures = { 500: faults['500'] ?? 0, 503: (faults['503'] ?? 0) + (faults['503-retry-after'] ?? 0) }
  const received = deliveries.answers['200'] ?? 0
  const list: Field[] = [
    [
      'Calls',
      `${pluralize(calls.accepted, 'call')}, ${calls.accepted === options.calls ? 'the same as Fillrate counts' : `where Fillrate counts ${formatCount(options.calls)}`}`,
      calls.refused === 0
        ? 'none over the limit'
        : `${formatCount(calls.refused)} over the limit, answered 429`,
    ],
    ['Questions', `${formatCount(inputs.distinct)} different ones`, describeRepeats(stats)],
  ]
  if (failures[500] + failures[503] > 0)
    list.push([
      'Failures',
      `${sum({ a: failures[500], b: failures[503] }, { a: 'calls answered 500', b: 'answered 503' })}`,
      'each tried again later',
    ])
  if (deliveries.attempts > 0)
    list.push([
      'Deliveries',
      `${formatCount(deliveries.attempts)} = ${sum(
        {
          stored: options.deliveries,
          repeats: Math.max(0, received - options.deliveries),
          refused: deliveries.answers['401'] ?? 0,
        },
        { stored: 'taken', repeats: 'repeated and dropped', refused: 'badly signed and refused' },
        ' + ',
      )}`,
      sum(
        { early: faults.early ?? 0, failed: jobs.failed },
        { early: 'came before the job was accepted', failed: 'told of a failed job' },
      ),
    ])
  return fields(list, output)
}

/** Why a question was asked a second time: the service did not answer it the first time. */
function describeRepeats({ inputs, jobs, faults }: SandboxStats): string {
  if (inputs.asked_more_than_once === 0) return 'none asked twice'
  const why = sum(
    { failed: jobs.failed, missing: faults['missing-result'] ?? 0 },
    { failed: jobs.failed === 1 ? 'failed job' : 'failed jobs', missing: 'results were left out' },
    ', ',
  )
  return `${formatCount(inputs.asked_more_than_once)} asked again, because the service gave no answer: ${why}`
}

const INDENT = '    '

/** Rows side by side, as they were and as they are. Blanks are shown as what they are, because they differ. */
export function exampleLines(examples: readonly ContactExample[], output: Output): string[] {
  const { paint } = output
  const lines = examples.flatMap(({ cells }) =>
    cells.map(({ column, before, after }) => ({
      column,
      before: formatCell(before),
      after: formatCell(after),
      kept: before === after,
    })),
  )
  const [head = '', ...body] = table(
    lines,
    [
      { title: `${INDENT}column`, text: (line) => INDENT + line.column },
      { title: 'before', text: (line) => line.before, least: 8 },
      {
        title: 'after',
        text: (line) => (line.kept ? `${line.after}  (stays)` : line.after),
        least: 8,
        style: (line) => (line.kept ? null : 'good'),
      },
    ],
    output,
  )
  const edge = output.columns ?? Number.POSITIVE_INFINITY
  return [
    head,
    ...examples.flatMap(({ name, asked_by: askedBy, cells }) => [
      cut(`  ${paint('heading', name)}  ${paint('quiet', 'asked by')} ${formatCell(askedBy)}`, edge),
      ...body.splice(0, cells.length),
    ]),
  ]
}

/** In quotes where it could not be told from nothing, or has spaces at its ends. */
function formatCell(value: string | null): string {
  if (value === null) return 'NULL'
  return value === value.trim() && value !== '' && !/[\u200b\ufeff]/.test(value)
    ? value
    : JSON.stringify(value).replaceAll('\u00a0', '\\u00a0').replaceAll('\u200b', '\\u200b')
}
