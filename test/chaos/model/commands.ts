import type { Service } from './model-state.ts'

/** What one world can do in one step. A world is three rows, two of which share an address. */
const WORLD = [
  'idle',
  'pick',
  'pick',
  'call',
  'call',
  'call',
  'lease',
  'lease',
  'call_leased',
  'release',
  'found',
  'found',
  'not_found',
  'server_error',
  'server_error',
  'crash',
  'expire',
  'expire',
  'pause_process',
  'resume_process',
  'repeat',
  'change_input',
  'change_back',
  'change_and_empty',
  'change_and_empty',
  'edit_title',
  'edit_phone',
  'reuse_key',
  'reuse_key',
  'delete_row',
  'insert_row',
  'reload',
  'lock_row',
  'lock_row',
] as const
/** What happens to all worlds at once, because the product does it for the whole database. */
const SHARED = [
  'none',
  'submit',
  'submit',
  'crash_before_post',
  'accept',
  'lose_202',
  'deliver',
  'deliver',
  'deliver_half',
  'deliver_failed',
  'deliver_twice',
  'deliver_foreign',
  'settle',
  'settle',
  'write_back',
  'write_back',
  'repick',
  'pass_deadlines',
  'worker_dies',
  'enrich',
  'enrich',
  'enrich',
  'enrich',
  'undo',
  'undo',
  'undo_any',
  'undo_any',
  'undo_any',
  'remap',
  'forget',
  'notice_deleted',
  'notice_deleted',
  'notice_deleted',
  'unlock',
  'unlock',
  'slow_table',
] as const

export type WorldCommand = (typeof WORLD)[number]
export type SharedCommand = (typeof SHARED)[number]

/** Concurrent workers: three of the live service, two of the test service. */
export const WORKERS = 5
export const serviceOf = (worker: number): Service => (worker < 3 ? 0 : 1)

/** Commands are drawn as numbers, because a batch has thousands of them. */
export const MAX_DRAWN = 2 ** 16 - 1

export interface Drawn<Name> {
  readonly name: Name
  readonly worker: number
  readonly row: number
}

const read = <Name>(names: readonly Name[], drawn: number): Drawn<Name> => ({
  name: names[drawn % names.length] as Name,
  worker: (drawn >> 5) % WORKERS,
  row: (drawn >> 8) % 3,
})
export const worldCommand = (drawn: number): Drawn<WorldCommand> => read(WORLD, drawn)
export const sharedCommand = (drawn: number): Drawn<SharedCommand> => read(SHARED, drawn)

const NEEDS_WORKER: ReadonlySet<WorldCommand> = new Set(['pick'])
const NEEDS_ROW: ReadonlySet<WorldCommand> = new Set([
  'change_input',
  'change_back',
  'change_and_empty',
  'edit_title',
  'edit_phone',
  'reuse_key',
  'delete_row',
  'insert_row',
  'lock_row',
])

/** Groups the worlds that do the same. @param drawn by world */
export function groupWorlds(
  drawn: readonly number[],
): Iterable<{ readonly command: Drawn<WorldCommand>; readonly worlds: readonly number[] }> {
  const groups = new Map<string, { command: Drawn<WorldCommand>; worlds: number[] }>()
  drawn.forEach((number, world) => {
    const command = worldCommand(number)
    const { name, worker, row } = command
    const same = `${name} ${NEEDS_WORKER.has(name) ? worker : ''} ${NEEDS_ROW.has(name) ? row : ''}`
    const group = groups.get(same) ?? { command, worlds: [] }
    group.worlds.push(world)
    groups.set(same, group)
  })
  return groups.values()
}
