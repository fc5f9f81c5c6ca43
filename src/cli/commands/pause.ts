import { ConfigProblems } from '../../config/problems.ts'
import {
  type Context,
  DATABASE_VARIABLES,
  Exit,
  type ExitCode,
  type Invocation,
  createParser,
  defineCommand,
} from '../command.ts'
import { readConfig, withDatabase } from '../settings.ts'
import { writeJson } from '../terminal.ts'

export const pauseCommand = defineCommand(
  createParser('pause')
    .summary('holds sources: no run picks from them before they are resumed')
    .description(
      'Pauses sources, for every process that works on this database and until they are resumed. A run leaves a paused ' +
        'source out, and says so. What was picked before is still asked and written, because it may be paid for already.',
    )
    .argument('<SOURCE...>', 'sources of the configuration'),
  {
    group: 'work',
    examples: [['fillrate pause contacts', 'while somebody imports a list, for instance']],
    environment: DATABASE_VARIABLES,
    handler: (invocation, context) => change(invocation, context, true),
  },
)

export const resumeCommand = defineCommand(
  createParser('resume')
    .summary('ends a pause')
    .description('Lets runs pick from these sources again.')
    .argument('<SOURCE...>', 'paused sources'),
  {
    group: 'work',
    examples: [['fillrate resume contacts', '']],
    environment: DATABASE_VARIABLES,
    handler: (invocation, context) => change(invocation, context, false),
  },
)

async function change(
  invocation: Invocation<[string[]]>,
  context: Context,
  pausing: boolean,
): Promise<ExitCode> {
  const { stdout } = context
  const names = [...new Set(invocation.args[0])]
  const { sources } = await readConfig(invocation, context)
  const store = await import('../../store/paused-sources.ts')
  return withDatabase(context, async (db) => {
    const before = await store.listPaused(db)
    // One that was paused and then taken out of the configuration can still be resumed.
    const known = [...Object.keys(sources), ...(pausing ? [] : before.map((one) => one.source))]
    refuseUnknown(names, known)
    const changed = pausing
      ? await store.pauseSources(db, names, 'the command line')
      : await store.resumeSources(db, names)
    const paused = await store.listPaused(db)
    if (invocation.flags.json) writeJson(stdout, { changed, paused })
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
