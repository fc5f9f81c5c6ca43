/** How a command ends, for the shell and for cron. */
export const Exit = {
  done: 0,
  failed: 1,
  usage: 2,
  open: 3,
  budget: 4,
  interrupted: 130,
} as const
export type ExitCode = (typeof Exit)[keyof typeof Exit]

/** What help says of each. */
export const EXIT_MEANINGS: Readonly<Record<ExitCode, string>> = {
  0: 'done',
  1: 'failed',
  2: 'wrong usage, configuration or environment',
  3: 'done, but some rows failed or still wait',
  4: 'the budget was reached',
  130: 'interrupted, with its state saved',
}
