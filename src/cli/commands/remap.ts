import { openApp } from '../../app.ts'
import { exitCodeOf } from '../../pipeline/run/report.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { CounterView } from '../render/counter.ts'
import { writeJson } from '../render/json.ts'
import { remapLines } from '../render/remap.ts'
import { readSettings } from '../settings.ts'

export async function remap(command: Command<'remap'>, context: Context): Promise<ExitCode> {
  const { stdout, stderr, signal, now } = context
  const app = await openApp(await readSettings(command, context))
  const view = new CounterView(stderr, 'rows', now)
  try {
    const remapped = await app.remap({
      source: command.words[0] ?? '',
      dryRun: command.flags.dryRun,
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
