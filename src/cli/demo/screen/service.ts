import type { Stats } from '../../../sandbox/stats.ts'
import type { Output } from '../../output.ts'
import { fields, type Field } from '../../render/fields.ts'
import { count, counted } from '../../../domain/numbers.ts'
import { sum } from '../../render/sum.ts'

/** What the service counted by itself, and what it did wrong on purpose. */
export function serviceLines(
  stats: Stats,
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
      `${counted(calls.accepted, 'call')}, ${calls.accepted === options.calls ? 'the same as Fillrate counts' : `where Fillrate counts ${count(options.calls)}`}`,
      calls.refused === 0 ? 'none over the limit' : `${count(calls.refused)} over the limit, answered 429`,
    ],
    ['Questions', `${count(inputs.distinct)} different ones`, twice(stats)],
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
      `${count(deliveries.attempts)} = ${sum(
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
function twice({ inputs, jobs, faults }: Stats): string {
  if (inputs.asked_more_than_once === 0) return 'none asked twice'
  const why = sum(
    { failed: jobs.failed, missing: faults['missing-result'] ?? 0 },
    { failed: jobs.failed === 1 ? 'failed job' : 'failed jobs', missing: 'results were left out' },
    ', ',
  )
  return `${count(inputs.asked_more_than_once)} asked again, because the service gave no answer: ${why}`
}
