import { Argument } from '@commander-js/extra-typings'
import type { TriggerStatus } from '../../actions/triggers.ts'
import { REQUIRED_SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { auditCommand, useApp } from '../settings.ts'

export const followCommand = defineCommand(
  createParser('follow')
    .summary('installs or removes the triggers of live sync')
    .description(
      '`install` creates triggers on the table of a source, by which `fillrate start` enriches rows within a ' +
        'second after their inputs change. The triggers never make a statement fail or wait. `remove` drops them, ' +
        'also of a source that left the configuration. Install them again after a change to the inputs of the ' +
        'source.',
    )
    .addArgument(
      new Argument('<install|remove>', 'create or drop the triggers').choices(['install', 'remove']),
    )
    .argument(...REQUIRED_SOURCES_ARGUMENT),
  {
    group: 'setup',
    examples: [
      ['fillrate follow install contacts', 'then `follow: true` on the source, and `fillrate start`'],
    ],

    async handler(call) {
      const { stdout, flags } = call
      const [action, named] = call.args
      const { app } = await useApp(call)
      const { chooseSources } = await import('../../actions/validate-request.ts')
      const { listLeftTriggers, removeLeftTriggers } = await import('../../actions/triggers.ts')
      const isConfigured = (name: string): boolean =>
        app.sources.has(name) || app.brokenSources?.has(name) === true
      const left =
        action === 'install'
          ? []
          : await listLeftTriggers(
              app.db,
              named.filter((name) => !isConfigured(name)),
            )
      const others = named.filter((name) => !left.includes(name))
      // A name that is wrong changes nothing.
      const names = [
        ...left,
        ...(others.length === 0 ? [] : chooseSources(app, others).map(({ name }) => name)),
      ]
      const all: (TriggerStatus & { readonly source: string; readonly action: string })[] = []
      for (const name of names) {
        const did = await auditCommand(
          app.db,
          { action: `follow ${action}`, parameters: { sources: [name] } },
          () => (left.includes(name) ? removeLeftTriggers(app.db, name) : app.follow(action, name)),
          ({ changed }) => ({ outcome: 'done', detail: changed ? null : 'nothing to change' }),
        )
        all.push({ source: name, action, ...did })
        if (!flags.json) stdout.lines(describeTriggers(action, name, did))
      }
      return { json: { sources: all }, text: () => [] }
    },
  },
)

function describeTriggers(
  action: 'install' | 'remove',
  name: string,
  { changed, followed, table, columns }: TriggerStatus,
): string[] {
  if (action === 'install')
    return [
      `Changes of ${name} are now recorded: triggers on ${table} watch the columns`,
      `${columns.join(', ')}. \`fillrate start\` enriches rows as they change.`,
      ...(followed ? [] : [`Add \`follow: true\` to ${name} in the configuration.`]),
    ]
  return [
    changed
      ? `Triggers removed from ${table}. Changes of ${name} are no longer recorded.`
      : `No triggers were installed for ${name}.`,
  ]
}
