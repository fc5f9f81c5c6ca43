import { Exit, FINISHING_MESSAGE, createParser, defineCommand } from '../command.ts'
import { writeJson } from '../terminal.ts'

export const demoCommand = defineCommand(
  createParser('demo')
    .summary('the whole of it on this machine, with no settings')
    .description(
      'Starts a Postgres of its own in .fillrate/, fills it with a CRM of 800 companies and 5,000 people, starts the ' +
        'sandbox, and enriches what is missing. Run again, it asks nothing again.',
    ),
  {
    group: 'first',
    examples: [['fillrate demo', 'under a minute, and leaves a database to look at']],
    exits: [0, 1, 130],
    onInterrupt: FINISHING_MESSAGE,

    async handler(invocation, context) {
      const { showDemo } = await import('../../demo/demo.ts')
      const { DemoError } = await import('../../demo/settings.ts')
      try {
        return await showDemo(invocation, context)
      } catch (error) {
        if (!(error instanceof DemoError)) throw error
        const { stderr, stdout } = context
        stderr.line(`${stderr.paint('bad', 'fillrate:')} ${error.message}`)
        if (invocation.flags.json) writeJson(stdout, { error: { kind: 'demo', message: error.message } })
        return Exit.failed
      }
    },
  },
)
