import type { z } from 'zod'
import type { ConfigSchema } from './schema.ts'

/** A configuration that has been checked, with every default filled in. `ConfigInput` says what each part means. */
export interface Config extends z.output<ConfigSchema> {
  /** The file it was loaded from. Null: from code. */
  readonly path: string | null
  /** The service's name in the configuration. Null: it has one service, which needs none. */
  readonly serviceName: string | null
  /**
   * With several services: the configuration as each of them sees it, in their order, with the sources that it serves and
   * what it fills of them. Empty: the configuration has one service, and is its own view.
   */
  readonly views: readonly Config[]
}

/** An entry of the schedule: when to run which sources. */
export type ScheduleEntry = Config['schedule'][number]

/** A receiver of notifications. */
export type NotifyTarget = Config['notify'][number]
