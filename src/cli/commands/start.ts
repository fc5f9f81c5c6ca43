import { listFollowed } from '../../config/config.ts'
import { requireDatabaseUrl } from '../../config/environment.ts'
import { pluralize } from '../../util/text.ts'
import { Exit, createParser, defineCommand, printAnswer } from '../command.ts'
import { portOption } from '../options.ts'
import { readSettings } from '../settings.ts'
import { createDashboardLine } from './serve.ts'

export const startCommand = defineCommand(
  createParser('start')
    .summary('runs the daemon: schedule, live sync, webhook receiver and dashboard')
    .description(
      'Runs until stopped: scheduled runs at their times, live sync of sources with `follow: true`, webhooks as ' +
        'they arrive. Any number of processes can share a database. A changed configuration needs a restart. ' +
        'The first SIGTERM lets current work finish, the second stops immediately; both save the state.',
    )
    .addOption(portOption),
  {
    group: 'work',
    examples: [['fillrate start --port 8080', '']],
    onInterrupt: 'finishing current work; repeat to stop immediately, with the state saved',
    longLived: true,

    async handler(call) {
      const { flags, stdout, signal } = call
      const { config, log, environment: given } = await readSettings(call)
      const environment = {
        ...given,
        databaseUrl: requireDatabaseUrl(given),
        port: flags.port ?? given.port,
      }
      const { openApp } = await import('../../app.ts')
      const { runDaemon } = await import('../../daemon/daemon.ts')
      const describeDashboard = await createDashboardLine(environment, stdout)
      await runDaemon({
        environment,
        log,
        signal,
        config,
        open: (state) => openApp({ config, environment, log, state }),
        onListening: (listens) =>
          printAnswer(call, {
            json: { listens, public_url: environment.publicUrl },
            text: () =>
              listens === null
                ? [
                    'Another Fillrate process on this machine uses the port; this one takes over when it ends.',
                  ]
                : [
                    `Listening at ${stdout.paint('type', listens)} until stopped.`,
                    describeDashboard(listens),
                  ],
          }),
        onReady: () => {
          const follows = listFollowed(config.sources)
          printAnswer(call, {
            json: { follows },
            text: () => [
              `${pluralize(config.schedule.length, 'schedule')}; live sync of ${follows.join(', ') || 'no source'}.`,
            ],
          })
        },
      })
      return Exit.done
    },
  },
)
