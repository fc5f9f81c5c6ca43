import { program, EXIT_MEANINGS } from '../../src/cli/command.ts'
import { formatArguments } from '../docs/commands.ts'
import { commands } from '../../src/cli/commands.ts'
import { ENVIRONMENT_VARIABLES } from '../../src/config/environment.ts'
import { renderMetrics } from '../../src/http/metrics.ts'
import { MetricsRecorder, WorkMetrics } from '../../src/pipeline/metrics-recorder.ts'
import { LOG_EVENTS } from '../../src/util/log.ts'
import { EMPTY_METRICS } from '../../test/support/empty-metrics.ts'
import { configJsonSchema } from '../config-schema.ts'
import { reportsSchema, toSchema } from '../docs/json.ts'
import { notification } from '../../src/domain/report/notification.ts'
import { listLibrary } from './library.ts'
import { DEMANDS, listSchema, type Surface } from './schema.ts'

/** What users can rely on, and what they have to give, by surface: a sorted list of lines each. */
export async function listSurfaces(): Promise<Readonly<Record<string, readonly string[]>>> {
  const surfaces = {
    configuration: listConfiguration(),
    command_line: listCommandLine(),
    json: listJson(),
    metrics: await listMetrics(),
    log_events: { promises: Object.keys(LOG_EVENTS), demands: [] },
    notifications: listNotifications(),
    library: listLibrary(new URL('../../src/index.ts', import.meta.url).pathname),
  }
  return Object.fromEntries(
    Object.entries(surfaces).map(([name, { promises, demands }]) => [
      name,
      [...new Set([...promises, ...demands])].toSorted(),
    ]),
  )
}

function listConfiguration(): Surface {
  const surface: Surface = { promises: [], demands: [] }
  listSchema(configJsonSchema(), 'configuration', 'written', surface)
  return surface
}

function listJson(): Surface {
  const surface: Surface = { promises: [], demands: [] }
  for (const [name, schema] of Object.entries(reportsSchema().$defs))
    listSchema(schema, name, 'read', surface)
  return surface
}

function listNotifications(): Surface {
  const surface: Surface = { promises: [], demands: [] }
  listSchema(toSchema(notification), 'notification', 'read', surface)
  return surface
}

function listCommandLine(): Surface {
  const demands: string[] = []
  const promises = [
    ...Object.keys(EXIT_MEANINGS).map((code) => `exit code ${code}`),
    ...Object.keys(ENVIRONMENT_VARIABLES).map((name) => `variable ${name}`),
    ...program.options.flatMap((option) => listOption('', option)),
  ]
  for (const command of commands) {
    const { name, parser, exits, json } = command
    promises.push(`${name}: command`)
    if (json) promises.push(`${name} --json`)
    promises.push(...exits.map((code) => `${name} ends with ${code}`))
    for (const [n, { variadic, required, argChoices = [] }] of parser.registeredArguments.entries()) {
      promises.push(`${name} argument ${n + 1}${variadic ? ': several' : ''}`)
      promises.push(...argChoices.map((choice) => `${name} argument ${n + 1} = ${choice}`))
      if (required) demands.push(`${name}${DEMANDS}${formatArguments(command)[n]}`)
    }
    promises.push(...parser.options.flatMap((option) => listOption(`${name} `, option)))
  }
  return { promises, demands }
}

function listOption(
  before: string,
  option: Pick<(typeof program.options)[number], 'long' | 'short' | 'required' | 'argChoices'>,
): string[] {
  const { long, short, required, argChoices = [] } = option
  return [
    `${before}${long}${required ? ' with a value' : ''}`,
    ...(short ? [`${before}${short}`] : []),
    ...argChoices.map((choice) => `${before}${long} = ${choice}`),
  ]
}

/** Names, types, and the labels of those that exist from the start. */
async function listMetrics(): Promise<Surface> {
  const work = new WorkMetrics()
  new MetricsRecorder(work, 'acme').recordLookups([])
  const text = await renderMetrics(work, EMPTY_METRICS)
  const types = [...text.matchAll(/^# TYPE (fillrate_\S+ \w+)$/gm)].map(([, line = '']) => line)
  const labels = [...text.matchAll(/^(fillrate_\w+)\{(.*)\}/gm)].flatMap(([, name = '', list = '']) =>
    [...list.matchAll(/(\w+)="/g)].map(([, label = '']) => `${name} label ${label}`),
  )
  return { promises: [...types, ...labels], demands: [] }
}
