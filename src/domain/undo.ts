/** What an undo is about: the writes of a run. */
export interface UndoTarget {
  readonly run: number
}

export const describeUndoTarget = ({ run }: UndoTarget): string => `run ${run}`

/** An undo that writes, as a run of its own. */
export interface UndoContext {
  readonly run: number
  readonly target: UndoTarget
  /** The target is an undo itself: its values are written again. */
  readonly writesAgain: boolean
}
