import { openApp } from '../../app.ts'
import { whyClosed } from '../../daemon/http/access.ts'
import { LOOPBACK } from '../../daemon/receiver.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { readSettings } from '../settings.ts'

export async function serve(command: Command<'serve'>, context: Context): Promise<ExitCode> {
  const { flags } = command
  const { stdout, signal } = context
  const { environment, ...settings } = await readSettings(command, context)
  const app = await openApp({
    ...settings,
    environment: {
      ...environment,
      port: flags.port ?? environment.port,
      host: flags.host ?? environment.host,
    },
  })
  const closed = whyClosed({
    token: environment.dashboardToken,
    host: flags.host ?? environment.host ?? LOOPBACK,
    publicUrl: environment.publicUrl,
  })
  try {
    await app.serve({
      signal,
      onListening: (listens) => {
        if (flags.json) writeJson(stdout, { listens, public_url: environment.publicUrl, bulk: app.bulk })
        else if (listens === null)
          stdout.line(
            'Another Fillrate process on this machine receives already; this one settles and writes back.',
          )
        else {
          stdout.line(
            `Receives at ${stdout.paint('type', `${listens}/webhooks/enrichment`)} until told to stop.`,
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
}
