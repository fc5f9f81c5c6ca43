import { createParser, defineCommand } from '../command.ts'
import { parseWholeFrom } from '../options.ts'
import { readConfig } from '../settings.ts'

export const scheduleCommand = defineCommand(
  createParser('schedule')
    .summary('lists the next scheduled runs')
    .description('The next times of each entry of `schedule` in the configuration, in its time zone.')
    .option('--limit <N>', 'times per entry; default: 5', parseWholeFrom(1), 5),
  {
    group: 'inspect',
    examples: [['fillrate schedule', '']],
    exits: [0, 2],
    environment: [],

    async handler(call) {
      const { renderSchedule, toScheduleJson } = await import('../views/schedule.ts')
      const { schedule } = await readConfig(call)
      const [now, { limit }] = [call.now(), call.flags]
      return {
        json: { schedule: toScheduleJson(schedule, now, limit) },
        text: () => renderSchedule(schedule, now, limit, call.stdout),
      }
    },
  },
)
