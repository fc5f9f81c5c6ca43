/** What an undo is about: the writes of a run, and of the others of its group if it is the first. */
export interface UndoTarget {
  readonly run: number
  readonly others?: readonly number[]
}

/** `run 7`, `runs 7, 8 and 9`. */
export function describeUndoTarget({ run, others = [] }: UndoTarget): string {
  const last = others.at(-1)
  return last === undefined ? `run ${run}` : `runs ${[run, ...others.slice(0, -1)].join(', ')} and ${last}`
}

/** A target as `undoes` states it, in the options of a run and in reports. */
export type UndoneTarget = UndoTarget['run']

export const describeUndone = (undoes: UndoneTarget, others?: UndoTarget['others']): string =>
  describeUndoTarget({ run: undoes, ...(others && { others }) })

/** The command that undoes it. */
export const commandToUndo = (undoes: UndoneTarget): string => `fillrate undo ${undoes}`

/** An undo that writes, as a run of its own. */
export interface UndoContext {
  readonly run: number
  readonly target: UndoTarget
  /** The target is an undo itself: its values are written again. */
  readonly writesAgain: boolean
}
