import { openApp, SchemaMissing } from '../../app.ts'
import type { Config } from '../../config/config.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { runDaemon } from '../../daemon/daemon.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { scheduleLines, scheduleJson } from '../render/schedule.ts'
import { readConfig, readSettings } from '../settings.ts'

export async function start(command: Command<'start'>, context: Context): Promise<ExitCode> {
  const { flags } = command
  const { stdout, signal, now } = context
  const settings = await readSettings(command, context)
  const environment = {
    ...settings.environment,
    databaseUrl: demandDatabase(settings.environment.databaseUrl),
    port: flags.port ?? settings.environment.port,
    host: flags.host ?? settings.environment.host,
  }
  const { log } = settings
  await runDaemon({
    environment,
    log,
    signal,
    onReload: context.onReload ?? (() => {}),
    readConfig: () => readConfig(command, context),
    open: (config) => openApp({ config, environment, log }),
    isSchemaMissing: (error) => error instanceof SchemaMissing,
    onListening: (listens) => {
      if (flags.json) writeJson(stdout, { listens, public_url: environment.publicUrl })
      else if (listens === null)
        stdout.line(
          'Another Fillrate process on this machine has the port: it is taken over when that one ends.',
        )
      else stdout.line(`Listens at ${stdout.paint('type', listens)} until told to stop.`)
    },
    onConfig: (config) => {
      const follows = followed(config)
      if (flags.json) writeJson(stdout, { schedule: scheduleJson(config.schedule, now(), 1), follows })
      else {
        for (const line of scheduleLines(config.schedule, now(), 1, stdout)) stdout.line(line)
        if (follows.length > 0) stdout.line(`Follows ${follows.join(', ')}.`)
      }
    },
  })
  return Exit.done
}

const followed = (config: Config): string[] =>
  Object.values(config.sources)
    .filter((source) => source.follow)
    .map((source) => source.name)

function demandDatabase(url: string | null): string {
  if (url !== null) return url
  throw new ConfigProblems('the environment', [
    {
      place: 'DATABASE_URL',
      found: 'not set',
      expected: 'the address of the CRM database, postgres://user:password@host:5432/name',
      todo: 'Set it in the environment or in a .env file in this folder.',
    },
  ])
}
