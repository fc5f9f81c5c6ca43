import { Exit, createParser, defineCommand } from '../command.ts'
import { wholeNumberOption } from '../options.ts'
import { writeJson } from '../terminal.ts'
import { readConfig } from '../settings.ts'

export const scheduleCommand = defineCommand(
  createParser('schedule')
    .summary('lists the next scheduled runs')
    .description('The next times of each entry of `schedule` in the configuration, in its time zone.')
    .addOption(wholeNumberOption('--limit <N>', 'times per entry; default: 5', 1, 5)),
  {
    group: 'inspect',
    examples: [['fillrate schedule', '']],
    exits: [0, 2],

    async handler(invocation, context) {
      const { flags } = invocation
      const { stdout, now } = context
      const { renderSchedule, toScheduleJson } = await import('../views/schedule.ts')
      const config = await readConfig(invocation, context)
      if (flags.json) writeJson(stdout, { schedule: toScheduleJson(config.schedule, now(), flags.limit) })
      else stdout.lines(renderSchedule(config.schedule, now(), flags.limit, stdout))
      return Exit.done
    },
  },
)
