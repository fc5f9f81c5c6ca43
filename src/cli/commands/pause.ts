import type { PausedSource } from '../../store/paused-sources.ts'
import { relativeTime } from '../../util/format.ts'
import { durationOption, textOption } from '../options.ts'
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
    .argument('<SOURCE...>', 'sources of the configuration')
    .addOption(textOption('--because <TEXT>', 'the reason, shown wherever the pause is'))
    .addOption(
      durationOption('--for <2h>', 'resume by itself after this long; default: paused until resumed', 0),
    ),
  {
    group: 'work',
    examples: [
      ['fillrate pause contacts --because "import" --for 2h', ''],
      ['fillrate pause contacts', 'until `fillrate resume contacts`'],
    ],
    environment: DATABASE_VARIABLES,
    handler: (invocation, context) => {
      const { because, for: forMs } = invocation.flags
      return change(invocation, context, { reason: because, forMs: forMs === 0 ? null : forMs })
    },
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
    handler: (invocation, context) => change(invocation, context, null),
  },
)

/** @param pause null: resume */
async function change(
  invocation: Invocation<[string[]]>,
  context: Context,
  pause: { readonly reason: string | null; readonly forMs: number | null } | null,
): Promise<ExitCode> {
  const { stdout, now } = context
  const names = [...new Set(invocation.args[0])]
  const { sources } = await readConfig(invocation, context)
  const [store, { auditAction, createLocalActor }, { refuseUnknownSource }] = await Promise.all([
    import('../../store/paused-sources.ts'),
    import('../../actions/audit.ts'),
    import('../../actions/validate-request.ts'),
  ])
  return withDatabase(context, async (db) => {
    const before = await store.listPaused(db)
    // A paused source that was removed from the configuration can still be resumed.
    const known = [...Object.keys(sources), ...(pause === null ? before.map((one) => one.source) : [])]
    for (const name of names) if (!known.includes(name)) refuseUnknownSource(name, known)
    const actor = createLocalActor('command line')
    const changed = await auditAction(
      db,
      pause === null
        ? { actor, action: 'resume', parameters: { sources: names } }
        : {
            actor,
            action: 'pause',
            parameters: { sources: names, reason: pause.reason, for_ms: pause.forMs },
          },
      () =>
        pause === null
          ? store.resumeSources(db, names)
          : store.pauseSources(db, names, { by: actor.name, ...pause }),
      () => ({ outcome: 'done', detail: null }),
    )
    const paused = await store.listPaused(db)
    if (invocation.flags.json) writeJson(stdout, { changed, paused })
    else
      for (const name of names)
        stdout.line(
          pause === null
            ? changed.includes(name)
              ? `${name} resumed.`
              : `${name} was not paused.`
            : describePause(paused.find((one) => one.source === name) ?? null, name, changed, now()),
        )
    return Exit.done
  })
}

/** @param changed the sources that were not paused before */
function describePause(
  pause: PausedSource | null,
  name: string,
  changed: readonly string[],
  now: number,
): string {
  const end =
    pause?.resume_at == null
      ? `To resume: fillrate resume ${name}`
      : `It resumes by itself ${relativeTime(pause.resume_at, now)}.`
  return changed.includes(name)
    ? `${name} paused: runs skip it. Rows picked before are finished. ${end}`
    : `${name} was paused already; this pause replaces the one before. ${end}`
}
