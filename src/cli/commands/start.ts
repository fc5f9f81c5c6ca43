import type { Config } from '../../config/config.ts'
import { requireDatabaseUrl } from '../../config/environment.ts'
import { SERVER_VARIABLES, Exit, createParser, defineCommand } from '../command.ts'
import { portOption, textOption } from '../options.ts'
import { writeJson } from '../terminal.ts'
import { readConfig, readSettings } from '../settings.ts'

export const startCommand = defineCommand(
  createParser('start')
    .summary('runs the daemon: schedule, live sync, webhook receiver and dashboard')
    .description(
      'Runs until stopped: scheduled runs at their times, live sync of sources with `follow: true`, webhooks as ' +
        'they arrive. Any number of processes can share a database; each scheduled run is run once. SIGHUP reloads ' +
        'the configuration; an invalid one is rejected. The first SIGTERM lets current work finish, the second stops ' +
        'immediately; both save the state.',
    )
    .addOption(portOption('--port <N>', 'default: FILLRATE_PORT, else any free port', null))
    .addOption(textOption('--host <HOST>', 'default: FILLRATE_HOST, else 127.0.0.1')),
  {
    group: 'work',
    examples: [['fillrate start --port 8080', '']],
    environment: SERVER_VARIABLES,
    onInterrupt: 'finishing current work; repeat to stop immediately, with the state saved',
    longLived: true,

    async handler(invocation, context) {
      const { flags } = invocation
      const { stdout, signal, now } = context
      const settings = await readSettings(invocation, context)
      const environment = {
        ...settings.environment,
        databaseUrl: requireDatabaseUrl(settings.environment),
        port: flags.port ?? settings.environment.port,
        host: flags.host ?? settings.environment.host,
      }
      const { log } = settings
      const { openApp } = await import('../../app.ts')
      const { renderSchedule, toScheduleJson } = await import('../views/schedule.ts')
      const { runDaemon } = await import('../../daemon/daemon.ts')
      await runDaemon({
        environment,
        log,
        signal,
        onReload: context.onReload ?? (() => {}),
        readConfig: () => readConfig(invocation, context),
        open: (config, own, isRequired) => openApp({ config, environment, log, own, isRequired }),
        onListening: (listens) => {
          if (flags.json) writeJson(stdout, { listens, public_url: environment.publicUrl })
          else if (listens === null)
            stdout.line(
              'Another Fillrate process on this machine uses the port; this one takes over when it ends.',
            )
          else stdout.line(`Listening at ${stdout.paint('type', listens)} until stopped.`)
        },
        onConfig: (config) => {
          const follows = followed(config)
          if (flags.json) writeJson(stdout, { schedule: toScheduleJson(config.schedule, now(), 1), follows })
          else {
            stdout.lines(renderSchedule(config.schedule, now(), 1, stdout))
            if (follows.length > 0) stdout.line(`Live sync: ${follows.join(', ')}.`)
          }
        },
      })
      return Exit.done
    },
  },
)

const followed = (config: Config): string[] =>
  Object.values(config.sources)
    .filter((source) => source.follow)
    .map((source) => source.name)
