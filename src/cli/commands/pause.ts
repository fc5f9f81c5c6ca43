import { ConfigProblems } from '../../config/problems.ts'
import { withDatabase } from '../database.ts'
import * as store from '../../store/pauses.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { readConfig } from '../settings.ts'

/** `pause` and `resume`: the two differ in a word. */
export async function pause(command: Command<'pause' | 'resume'>, context: Context): Promise<ExitCode> {
  const { stdout } = context
  const pausing = command.verb === 'pause'
  const names = [...new Set(command.words)]
  const { sources } = await readConfig(command, context)
  return withDatabase(context, async (db) => {
    const before = await store.list(db)
    // One that was paused and then taken out of the configuration can still be resumed.
    const known = [...Object.keys(sources), ...(pausing ? [] : before.map((one) => one.source))]
    refuseUnknown(names, known)
    const changed = pausing ? await store.pause(db, names, 'the command line') : await store.resume(db, names)
    const paused = await store.list(db)
    if (command.flags.json) writeJson(stdout, { changed, paused })
    else for (const name of names) stdout.line(sentence(name, pausing, changed.includes(name)))
    return Exit.done
  })
}

function refuseUnknown(names: readonly string[], known: readonly string[]): void {
  const unknown = names.filter((name) => !known.includes(name))
  if (unknown.length === 0) return
  const expected = `one of: ${[...new Set(known)].join(', ')}`
  throw new ConfigProblems(
    'the command',
    unknown.map((name) => ({ place: `source ${name}`, found: 'no such source', expected, todo: null })),
  )
}

function sentence(name: string, pausing: boolean, changed: boolean): string {
  if (!pausing) return changed ? `${name} is picked again.` : `${name} was not paused.`
  return changed
    ? `${name} is paused: no run picks from it. What was picked already is finished. End it with: fillrate resume ${name}`
    : `${name} is paused already.`
}
