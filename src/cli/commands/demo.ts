import { Exit, FINISHING_MESSAGE, createParser, defineCommand } from '../command.ts'
import { writeJson } from '../terminal.ts'

export const demoCommand = defineCommand(
  createParser('demo')
    .summary('runs a complete demo on this machine; needs no configuration')
    .description(
      'Starts an embedded Postgres in .fillrate/, fills it with a CRM of 800 companies and 5,000 people, starts the ' +
        'sandbox, and enriches the missing data. A second demo repeats no lookup. With --keep, database, sandbox and ' +
        'dashboard run until Ctrl-C; their addresses are shown.',
    )
    .option('--keep', 'leave database, sandbox and dashboard running until Ctrl-C', false),
  {
    group: 'setup',
    examples: [
      ['fillrate demo', 'takes less than a minute'],
      ['fillrate demo --keep', 'and then leaves the dashboard open, and a database to try the commands on'],
    ],
    exits: [0, 1, 130],
    environment: [],
    onInterrupt: FINISHING_MESSAGE,

    async handler(call) {
      const { showDemo } = await import('../../demo/demo.ts')
      const { DemoError } = await import('../../demo/settings.ts')
      try {
        return await showDemo(call, call)
      } catch (error) {
        if (!(error instanceof DemoError)) throw error
        const { stderr, stdout } = call
        stderr.line(`${stderr.paint('bad', 'fillrate:')} ${error.message}`)
        if (call.flags.json) writeJson(stdout, { error: { kind: 'demo', message: error.message } })
        return Exit.failed
      }
    },
  },
)
