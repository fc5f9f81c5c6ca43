import { openApp } from '../../app.ts'
import { exitCodeOf } from '../../pipeline/run/report.ts'
import { usageOf, type Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { CounterView } from '../render/counter.ts'
import { writeJson } from '../render/json.ts'
import { remapLines } from '../render/remap.ts'
import { readSettings } from '../settings.ts'
import { UsageError } from '../usage-error.ts'

/** Rows that a dry run shows. */
const SAMPLE = 20

export async function remap(command: Command<'remap'>, context: Context): Promise<ExitCode> {
  const { stdout, stderr, signal, now } = context
  const { dryRun, sample } = command.flags
  if (sample !== null && !dryRun)
    throw new UsageError('--sample shows rows that would be written: give --dry-run with it', {
      usage: usageOf('remap'),
      help: 'fillrate remap --help',
    })
  const app = await openApp(await readSettings(command, context))
  const view = new CounterView(stderr, 'rows', now)
  try {
    const remapped = await app.remap({
      source: command.words[0] ?? '',
      dryRun,
      sample: sample ?? SAMPLE,
      signal,
      onProgress: (done, all) => view.update(done, all),
    })
    view.end()
    const { report, ...found } = remapped
    if (command.flags.json) writeJson(stdout, { ...report, ...found })
    else for (const line of remapLines(remapped, stdout)) stdout.line(line)
    if (report !== null) return exitCodeOf(report)
    return signal.aborted ? Exit.interrupted : Exit.done
  } finally {
    view.end()
    await app.close()
  }
}
