import { openApp } from '../../app.ts'
import { exitCodeOfUndo } from '../../pipeline/undo/report.ts'
import { quote } from '../../config/show.ts'
import { usageOf, type Command } from '../command.ts'
import type { Context } from '../context.ts'
import type { ExitCode } from '../exit-codes.ts'
import { CounterView } from '../render/counter.ts'
import { writeJson } from '../render/json.ts'
import { undoLines } from '../render/undo.ts'
import { readSettings } from '../settings.ts'
import { UsageError } from '../usage-error.ts'

export async function undo(command: Command<'undo'>, context: Context): Promise<ExitCode> {
  const { stdout, stderr, signal, now } = context
  const run = readRun(command.words[0] ?? '')
  const app = await openApp(await readSettings(command, context))
  const view = new CounterView(stderr, 'writes', now)
  try {
    const report = await app.undo({
      run,
      dryRun: command.flags.dryRun,
      signal,
      onProgress: (done, all) => view.update(done, all),
    })
    view.end()
    if (command.flags.json) writeJson(stdout, report)
    else for (const line of undoLines(report, stdout)) stdout.line(line)
    return exitCodeOfUndo(report)
  } finally {
    view.end()
    await app.close()
  }
}

function readRun(word: string): number {
  const run = /^\d+$/.test(word) ? Number(word) : Number.NaN
  if (Number.isSafeInteger(run)) return run
  throw new UsageError(`expected the number of a run, found ${quote(word)}`, {
    usage: usageOf('undo'),
    help: 'fillrate undo --help',
    suggestion: '`fillrate runs` lists them.',
  })
}
