import { createParser, defineCommand } from '../command.ts'
import { renderRowHistory } from '../views/explain.ts'
import { useApp } from '../settings.ts'

export const explainCommand = defineCommand(
  createParser('explain')
    .summary('shows the history of one row: inputs, lookups, record, changes, next step')
    .description(
      'Everything about one row: its current values and who wrote them, its lookups and records, every change with ' +
        'the values before and after, and when and why it is due again.',
    )
    .argument('<SOURCE>', 'a source of the configuration')
    .argument('<KEY>', 'the key of the row; for several columns a JSON array'),
  {
    group: 'inspect',
    examples: [
      ['fillrate explain contacts 4711', ''],
      ['fillrate explain members \'["acme","17"]\' --json', 'with the complete record'],
    ],

    async handler(call) {
      const [source, key] = call.args
      const { app } = await useApp(call)
      const history = await app.explain(source, key)
      return { json: history, text: () => renderRowHistory(history, call.stdout, call.now()) }
    },
  },
)
