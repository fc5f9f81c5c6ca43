import { openApp } from '../../app.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { storyLines } from '../render/explain.ts'
import { writeJson } from '../render/json.ts'
import { readSettings } from '../settings.ts'

export async function explain(command: Command<'explain'>, context: Context): Promise<ExitCode> {
  const { stdout, now } = context
  const [source = '', key = ''] = command.words
  const app = await openApp(await readSettings(command, context))
  try {
    const story = await app.explain(source, key)
    if (command.flags.json) writeJson(stdout, story)
    else for (const line of storyLines(story, stdout, now())) stdout.line(line)
    return Exit.done
  } finally {
    await app.close()
  }
}
