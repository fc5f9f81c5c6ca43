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
    .summary('pauses sources: runs skip them until they are resumed')
    .description(
      'Pauses sources in every process on this database until they are resumed. A run skips a paused source and ' +
        'reports it. Rows picked before are still looked up and written, because they may be billed already.',
    )
    .argument('<SOURCE...>', 'sources of the configuration'),
  {
    group: 'work',
    examples: [['fillrate pause contacts', 'during an import, for example']],
    environment: DATABASE_VARIABLES,
    handler: (invocation, context) => change(invocation, context, true),
  },
)

export const resumeCommand = defineCommand(
  createParser('resume')
    .summary('resumes paused sources')
    .description('Lets runs pick rows of these sources again.')
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
    // A paused source that was removed from the configuration can still be resumed.
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
  if (!pausing) return changed ? `${name} resumed.` : `${name} was not paused.`
  return changed
    ? `${name} paused: runs skip it. Rows picked before are finished. To resume: fillrate resume ${name}`
    : `${name} is already paused.`
}
