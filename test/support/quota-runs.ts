const runs = process.env['FILLRATE_QUOTA_RUNS']

/** `FILLRATE_QUOTA_RUNS=500` plays each case of the rate-limit tests; `npm test` plays a share of them. */
export const isEachCasePlayed = runs !== undefined

/** Cases of millions of calls take half an hour: `FILLRATE_QUOTA_RUNS=5000`, before a release. */
export const isEachLongCasePlayed = Number(runs ?? 0) >= 5_000

/** How often a property is tried. */
export const propertyRuns = (byDefault: number): number => Number(runs ?? byDefault)

/** All of these, or by default one: with each `turn` the next. */
export const someOf = <T>(all: readonly T[], turn: number): readonly T[] =>
  isEachCasePlayed ? all : all.slice(turn % all.length, (turn % all.length) + 1)
