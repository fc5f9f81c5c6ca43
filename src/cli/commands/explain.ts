import { DATABASE_VARIABLES, Exit, createParser, defineCommand } from '../command.ts'
import { renderRowHistory } from '../views/explain.ts'
import { writeJson } from '../terminal.ts'
import { withApp } from '../settings.ts'

export const explainCommand = defineCommand(
  createParser('explain')
    .summary("one row's story: inputs, lookup, answer, changes, what comes next")
    .description(
      'Tells everything about one row: what it holds now and who wrote it, what was asked and answered, every change with ' +
        'the values before and after, and when and why it is tried again.',
    )
    .argument('<SOURCE>', 'a source of the configuration')
    .argument('<KEY>', "a row's key as its column holds it; of several columns a JSON array"),
  {
    group: 'look',
    examples: [
      ['fillrate explain contacts 4711', ''],
      ['fillrate explain members \'["acme","17"]\' --json', 'with the record, whole'],
    ],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { stdout, now } = context
      const [source, key] = invocation.args
      return withApp(invocation, context, async (app) => {
        const story = await app.explain(source, key)
        if (invocation.flags.json) writeJson(stdout, story)
        else for (const line of renderRowHistory(story, stdout, now())) stdout.line(line)
        return Exit.done
      })
    },
  },
)
