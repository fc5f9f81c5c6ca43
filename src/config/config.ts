import type { z } from 'zod'
import type { ConfigSchema } from './schema.ts'

/** A configuration that has been checked, with every default filled in. `ConfigInput` says what each part means. */
export type Config = z.output<ConfigSchema> & {
  /** The file it was loaded from. Null: from code. */
  readonly path: string | null
}

/** An entry of the schedule: when to run which sources. */
export type ScheduleEntry = Config['schedule'][number]

/** A receiver of notifications. */
export type NotifyTarget = Config['notify'][number]
