import {
  FAILED_ROW_STATES,
  FAILURE_STATES,
  RETRY_STATES,
  type FailureState,
  type RetryState,
} from '../domain/row.ts'
import { DATABASE, declare, FINISHING, sources } from './declare.ts'
import { listed, readBy, text, toggle, wholeNumber } from './flag.ts'

// The commands by which a run is explained, repeated and taken back.

export const explainDeclaration = declare({
  group: 'look',
  summary: "one row's story: inputs, lookup, answer, changes, what comes next",
  about:
    'Tells everything about one row: what it holds now and who wrote it, what was asked and answered, every change with ' +
    'the values before and after, and when and why it is tried again.',
  words: {
    placeholder: 'SOURCE KEY',
    help: "a source, and a row's key as its column holds it; of several columns a JSON array",
    most: 2,
    least: 2,
  },
  flags: {},
  examples: [
    ['fillrate explain contacts 4711', ''],
    ['fillrate explain members \'["acme","17"]\' --json', 'with the record, whole'],
  ],
  environment: DATABASE,
})

export const failuresDeclaration = declare({
  group: 'look',
  summary: 'rows that could not be enriched, by reason',
  about:
    'Why rows could not be enriched: the reasons with their counts, what helps, and then the rows themselves; and why ' +
    'cells of other rows were left out. Rows that the service simply does not know are not among them.',
  flags: {
    csv: text('FILE', 'all of them as source,key,state,reason,settled_at; - for standard output'),
    source: text('SOURCE', 'only of this source'),
    state: readBy(
      'STATE,…',
      `only these: ${listed(FAILURE_STATES)}`,
      null as readonly FailureState[] | null,
      (given) => readStates(given, FAILURE_STATES),
      { repeats: true },
    ),
    limit: wholeNumber('rows at the most; default: 10, with --csv all', 1, null),
  },
  examples: [
    ['fillrate failures', ''],
    ['fillrate failures --state rejected --csv rejected.csv', ''],
  ],
  environment: DATABASE,
})

export const retryDeclaration = declare({
  group: 'work',
  summary: 'makes failed rows due, and only those: the next run picks them',
  about:
    'Makes rows that failed due, so that the next run picks them. A row whose answer is stored is then written from it ' +
    'without a call; a lookup that failed itself is asked again. Asks and writes nothing by itself. With --state undone ' +
    'it is rows whose write an undo has taken back.',
  words: sources,
  flags: {
    state: readBy(
      'STATE,…',
      `only these: ${listed(RETRY_STATES)}; default: the first three`,
      FAILED_ROW_STATES as readonly RetryState[],
      (given) => readStates(given, RETRY_STATES),
      { repeats: true },
    ),
    reason: text('TEXT', 'only rows with this in their reason, in any case'),
    dryRun: toggle('counts them, and makes nothing due'),
  },
  examples: [
    ['fillrate retry contacts --reason "unique conflict"', 'after the conflict is solved'],
    ['fillrate retry --state undone', 'what an undo has taken back'],
  ],
  environment: DATABASE,
})

export const undoDeclaration = declare({
  group: 'work',
  summary: "takes back a run's writes, where nobody has changed them since",
  about:
    'Gives each cell that a run has written what it held before, unless somebody has changed it since: that stays, and ' +
    'is told. It is a run itself, so that it can be taken back in its turn. Interrupted or killed, it is typed again and ' +
    'finishes. The rows are not written again before their inputs change or their answers are due, or `fillrate retry ' +
    '--state undone` is typed.',
  words: { placeholder: 'RUN', help: 'the number of a run; `fillrate runs` lists them', most: 1, least: 1 },
  flags: { dryRun: toggle('tells what would be taken back, and writes nothing') },
  examples: [['fillrate undo 12 --dry-run', 'first look, then the same without it']],
  exits: [0, 1, 2, 3, 130],
  environment: DATABASE,
  onInterrupt: FINISHING,
})

export const remapDeclaration = declare({
  group: 'work',
  summary: 'writes stored records again under a changed mapping, without a call',
  about:
    'Holds the records that are stored against the mapping as it is now, and writes what it would change: columns that ' +
    'were added, maps that were changed, a lower minConfidence. The policies hold as in every run. Rows that an undo has ' +
    'taken back are written too. It is a run itself, and can be taken back.',
  words: { placeholder: 'SOURCE', help: 'a source of the configuration', most: 1, least: 1 },
  flags: {
    dryRun: toggle('tells what would be written, with the first rows, and writes nothing'),
    sample: wholeNumber('rows to show before and after, with --dry-run; default: 20', 0, null),
  },
  examples: [['fillrate remap contacts --dry-run', 'first look, then the same without it']],
  exits: [0, 1, 2, 3, 130],
  environment: DATABASE,
  onInterrupt: FINISHING,
})

function readStates<State extends string>(given: string, states: readonly State[]): readonly State[] {
  return given.split(',').map((word) => {
    const state = states.find((one) => one === word.trim().toLowerCase().replaceAll(/[\s-]/g, '_'))
    if (state === undefined) throw new Error(listed(states))
    return state
  })
}
