import { parseText } from '../options.ts'
import {
  REQUIRED_SOURCES_ARGUMENT,
  createParser,
  defineCommand,
  type Answer,
  type CliCall,
} from '../command.ts'
import { auditCommand, readConfig, useDatabase } from '../settings.ts'

export const pauseCommand = defineCommand(
  createParser('pause')
    .summary('pauses sources: runs skip them until they are resumed')
    .description(
      'Pauses sources in every process on this database until they are resumed. A run skips a paused source and ' +
        'reports it. Rows picked before are still looked up and written, because they may be billed already.',
    )
    .argument(...REQUIRED_SOURCES_ARGUMENT)
    .option('--because <TEXT>', 'the reason, shown wherever the pause is', parseText, null),
  {
    group: 'work',
    examples: [['fillrate pause contacts --because "import"', 'until `fillrate resume contacts`']],
    handler: (call) => change(call, { reason: call.flags.because }),
  },
)

export const resumeCommand = defineCommand(
  createParser('resume')
    .summary('resumes paused sources')
    .description('Lets runs pick rows of these sources again.')
    .argument('<SOURCE...>', "paused sources, also by pattern: 'acme_*'"),
  {
    group: 'work',
    examples: [['fillrate resume contacts', '']],
    handler: (call) => change(call, null),
  },
)

/** @param pause null: resume */
async function change(
  call: CliCall<[string[]]>,
  pause: { readonly reason: string | null } | null,
): Promise<Answer> {
  const { sources } = await readConfig(call)
  const store = await import('../../store/source-state.ts')
  const { expandSourceNames } = await import('../../actions/validate-request.ts')
  const db = await useDatabase(call)
  const before = await store.listPaused(db)
  // A paused source that was removed from the configuration can still be resumed.
  const known = [...Object.keys(sources), ...(pause === null ? before.map(({ source }) => source) : [])]
  const names = expandSourceNames(call.args[0], known)
  const changed = await auditCommand(
    db,
    pause === null
      ? { action: 'resume', parameters: { sources: names } }
      : { action: 'pause', parameters: { sources: names, ...pause } },
    ({ name: by }) =>
      pause === null ? store.resumeSources(db, names) : store.pauseSources(db, names, { by, ...pause }),
    () => ({ outcome: 'done', detail: null }),
  )
  const paused = await store.listPaused(db)
  const describe = (name: string): string => {
    const isChanged = changed.includes(name)
    if (pause === null) return `${name} ${isChanged ? 'resumed' : 'was not paused'}.`
    const what = isChanged
      ? 'paused: runs skip it. Rows picked before are finished.'
      : 'was paused already; this pause replaces the one before.'
    return `${name} ${what} To resume: fillrate resume ${name}`
  }
  return { json: { changed, paused }, text: () => names.map(describe) }
}
