import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { ConfigProblems } from '../../config/problems.ts'
import { FAILURE_STATES } from '../../domain/row.ts'
import type { Database } from '../../store/open.ts'
import type { FailedRow, FailureFilter } from '../../store/failures.ts'
import type { SkippedRow } from '../../store/skipped-cells.ts'
import { type CliCallOf, Exit, type ExitCode, createParser, defineCommand } from '../command.ts'
import { readConfigOrProblems, useDatabase } from '../settings.ts'
import { formatChoices, parseText, parseWholeFrom, statesOption } from '../options.ts'
import { formatCsvLine } from '../../util/csv.ts'
import { renderFailures } from '../views/failures.ts'
import { writeJson } from '../terminal.ts'
import { pluralize } from '../../util/format.ts'
import { didYouMean, listNames } from '../../util/text.ts'

/** Rows shown by default; a file gets all. */
const SHOWN = 10

const failuresParser = createParser('failures')
  .summary('lists rows that could not be enriched and cells that were skipped, by reason')
  .description(
    'Reasons with their number of rows and how to fix them, the cells that were skipped with their values, then the ' +
      'rows themselves. Rows without a match are not included.',
  )
  .option(
    '--csv <FILE>',
    'write all rows, and a line for each skipped cell, as CSV: source, key, state, reason, settled_at, column, value; - for standard output',
    parseText,
    null,
  )
  .option('--source <SOURCE>', 'rows of this source', parseText, null)
  .addOption(
    statesOption(
      '--state <STATE,…>',
      `rows in these states: ${formatChoices(FAILURE_STATES)}`,
      FAILURE_STATES,
      null,
    ),
  )
  .option(
    '--limit <N>',
    'maximum number of rows, and of skipped cells with --json or --csv; default: 10, with --csv all',
    parseWholeFrom(1),
    null,
  )

export const failuresCommand = defineCommand(failuresParser, {
  group: 'inspect',
  examples: [
    ['fillrate failures', ''],
    ['fillrate failures --state rejected --csv rejected.csv', ''],
  ],

  async handler(call) {
    const { flags, stdout } = call
    const store = await import('../../store/failures.ts')
    const skippedCells = await import('../../store/skipped-cells.ts')
    const { listRetiredSources } = await import('../../store/retire-source.ts')
    const config = await readConfigOrProblems(call)
    // Null: without a configuration it is unknown which sources have left it.
    const configured = config instanceof ConfigProblems ? null : Object.keys(config.sources)
    const db = await useDatabase(call)
    await refuseUnknown(db, flags.source)
    const filter = { source: flags.source ?? configured, states: flags.state }
    if (flags.csv !== null) return writeCsv(db, filter, flags.csv, call)
    const retired =
      configured === null || flags.source !== null ? [] : await listRetiredSources(db, configured)
    const limit = flags.limit ?? SHOWN
    const reasons = await store.countFailureReasons(db, filter)
    const rows = await store.latestFailures(db, filter, limit)
    const cells = await skippedCells.groupSkippedCells(db, filter)
    const total = reasons.reduce((sum, reason) => sum + reason.rows, 0)
    const found = { total, reasons, cells, rows, retired: retired.filter(({ failed }) => failed > 0) }
    const skipped = flags.json ? await skippedCells.latestSkippedCells(db, filter, limit) : []
    return {
      json: { ...found, skipped_cells: skipped },
      text: () => renderFailures(found, stdout, call.now()),
    }
  },
})

async function refuseUnknown(db: Database, source: string | null): Promise<void> {
  if (source === null) return
  const { listSourceNames } = await import('../../store/rows.ts')
  const known = await listSourceNames(db)
  if (known.includes(source)) return
  throw new ConfigProblems('the command', [
    {
      place: '--source',
      found: `'${source}', which has no picked rows`,
      expected: known.length === 0 ? 'no source: no row was picked yet' : `one of: ${listNames(known)}`,
      todo: didYouMean(source, known),
    },
  ])
}

const HEAD = formatCsvLine(['source', 'key', 'state', 'reason', 'settled_at', 'column', 'value'])

async function writeCsv(
  db: Database,
  filter: FailureFilter,
  target: string,
  { flags, stdout, stderr, cwd, signal }: CliCallOf<typeof failuresParser>,
): Promise<ExitCode> {
  const file = target === '-' ? null : await openFile(resolve(cwd, target), target)
  const write = async (text: string): Promise<void> => {
    if (file === null) stdout.write(text)
    else await file.write(text)
  }
  const { iterateFailures } = await import('../../store/failures.ts')
  const { iterateSkippedCells } = await import('../../store/skipped-cells.ts')
  let rows = 0
  let cells = 0
  try {
    await write(HEAD)
    for await (const page of iterateFailures(db, filter, flags.limit)) {
      signal.throwIfAborted()
      await write(page.map(formatFailedLine).join(''))
      rows += page.length
    }
    for await (const page of iterateSkippedCells(db, filter, flags.limit)) {
      signal.throwIfAborted()
      await write(page.map(formatSkippedLine).join(''))
      cells += page.length
    }
  } finally {
    await file?.close()
  }
  if (flags.json && file !== null) writeJson(stdout, { csv: target, rows, cells })
  else
    stderr.line(
      `Wrote ${pluralize(rows, 'row')}${cells === 0 ? '' : ` and ${pluralize(cells, 'skipped cell')}`}${file === null ? '' : ` to ${target}`}.`,
    )
  return Exit.done
}

const formatFailedLine = ({ source, key, state, reason, settled_at: at }: FailedRow): string =>
  formatCsvLine([source, key, state, reason, at.toISOString(), null, null])

/** A value that is no text is written as JSON. */
const formatSkippedLine = (cell: SkippedRow): string =>
  formatCsvLine([
    cell.source,
    cell.key,
    cell.state,
    cell.description,
    cell.skipped_at.toISOString(),
    cell.column,
    typeof cell.value === 'string' ? cell.value : JSON.stringify(cell.value),
  ])

async function openFile(path: string, target: string): Promise<Awaited<ReturnType<typeof open>>> {
  try {
    // Personal data: for the user alone.
    return await open(path, 'w', 0o600)
  } catch (cause) {
    const found = `${target}: ${(cause as Error).message}`
    const problem = { place: '--csv', found, expected: 'a writable file', todo: null }
    throw new ConfigProblems('the command', [problem], { cause })
  }
}
