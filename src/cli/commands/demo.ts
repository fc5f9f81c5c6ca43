import { CLOSING_MESSAGE, createParser, defineCommand } from '../command.ts'

export const demoCommand = defineCommand(
  createParser('demo')
    .summary('runs a complete demo on this machine; needs no configuration')
    .description(
      'Runs plan, run and status on an embedded Postgres with a CRM of 800 companies and 5,000 people, and two ' +
        'sandboxes that know different people. Nothing of it stays.',
    )
    .option('--keep', 'leave database, sandboxes and dashboard running until Ctrl-C', false),
  {
    group: 'setup',
    examples: [
      ['fillrate demo', 'takes less than a minute'],
      ['fillrate demo --keep', 'and then leaves the dashboard open, and a database to try the commands on'],
    ],
    exits: [0, 1, 130],
    readsEnvironment: false,
    json: false,
    onInterrupt: CLOSING_MESSAGE,

    async handler(call) {
      const { showDemo } = await import('../../demo/demo.ts')
      return showDemo(call, call.flags)
    },
  },
)
