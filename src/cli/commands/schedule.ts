import { defineCommand, parser } from '../command.ts'
import { Exit } from '../exit-codes.ts'
import { wholeNumber } from '../options.ts'
import { writeJson } from '../render/json.ts'
import { scheduleJson, scheduleLines } from '../render/schedule.ts'
import { readConfig } from '../settings.ts'

export const schedule = defineCommand(
  parser('schedule')
    .summary('when the schedule runs next, in its own zone')
    .description('The next times of each entry of `schedule` in the configuration, in its time zone.')
    .addOption(wholeNumber('--limit <N>', 'times of each entry; default: 5', 1, 5)),
  {
    group: 'look',
    examples: [['fillrate schedule', '']],
    exits: [0, 2],

    async handler(invocation, context) {
      const { flags } = invocation
      const { stdout, now } = context
      const config = await readConfig(invocation, context)
      if (flags.json) writeJson(stdout, { schedule: scheduleJson(config.schedule, now(), flags.limit) })
      else for (const line of scheduleLines(config.schedule, now(), flags.limit, stdout)) stdout.line(line)
      return Exit.done
    },
  },
)
