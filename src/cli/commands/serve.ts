import { CLOSING_MESSAGE, Exit, SERVER_VARIABLES, createParser, defineCommand } from '../command.ts'
import { portOption, textOption } from '../options.ts'
import { writeJson } from '../terminal.ts'
import { toBulkJson } from '../json.ts'
import { readSettings } from '../settings.ts'

export const serveCommand = defineCommand(
  createParser('serve')
    .summary('runs the webhook receiver, dashboard and metrics only')
    .description(
      'Receives the webhooks of bulk jobs until stopped, and writes their records back, so that a run need not wait ' +
        'for them. The dashboard is at /, the Prometheus metrics at /metrics.',
    )
    .addOption(portOption('--port <N>', 'default: FILLRATE_PORT, else any free port', null))
    .addOption(textOption('--host <HOST>', 'default: FILLRATE_HOST, else 127.0.0.1')),
  {
    group: 'work',
    examples: [['fillrate serve --port 8080', 'then open http://127.0.0.1:8080/']],
    environment: SERVER_VARIABLES,
    onInterrupt: CLOSING_MESSAGE,
    longLived: true,
    waitsForDatabase: true,

    async handler(invocation, context) {
      const { flags } = invocation
      const { stdout, signal } = context
      const { environment, ...settings } = await readSettings(invocation, context)
      const { openApp } = await import('../../app.ts')
      const app = await openApp({
        ...settings,
        environment: {
          ...environment,
          port: flags.port ?? environment.port,
          host: flags.host ?? environment.host,
        },
      })
      const { closedReason } = await import('../../http/auth.ts')
      const { DEFAULT_HOST } = await import('../../http/receiver.ts')
      const closed = closedReason({
        tokens: environment.dashboardTokens,
        host: flags.host ?? environment.host ?? DEFAULT_HOST,
        publicUrl: environment.publicUrl,
      })
      try {
        await app.serve({
          signal,
          onListening: (listens) => {
            if (flags.json)
              writeJson(stdout, { listens, public_url: environment.publicUrl, bulk: toBulkJson(app.bulk) })
            else if (listens === null)
              stdout.line(
                'Another Fillrate process on this machine receives webhooks already; this one settles and writes back.',
              )
            else {
              stdout.line(
                `Receiving webhooks at ${stdout.paint('type', `${listens}/webhooks/enrichment`)} until stopped.`,
              )
              stdout.line(
                closed === null
                  ? `The dashboard is at ${stdout.paint('type', `${listens}/`)}`
                  : `${stdout.paint('warn', 'The dashboard is closed:')} ${closed}.`,
              )
            }
          },
        })
        return Exit.done
      } finally {
        await app.close()
      }
    },
  },
)
