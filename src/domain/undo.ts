/** What an undo is about: the writes of a run. */
export interface UndoTarget {
  readonly run: number
}

/** A target as `undoes` states it, in the options of a run and in reports. */
export type UndoneTarget = UndoTarget['run']

export const describeUndone = (undoes: UndoneTarget): string => `run ${undoes}`

/** The command that undoes it. */
export const commandToUndo = (undoes: UndoneTarget): string => `fillrate undo ${undoes}`

/** An undo that writes, as a run of its own. */
export interface UndoContext {
  readonly run: number
  readonly target: UndoTarget
  /** The target is an undo itself: its values are written again. */
  readonly writesAgain: boolean
}
