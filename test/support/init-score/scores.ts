import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { InitScore, Tally } from './score.ts'

const FILE = join(import.meta.dirname, '../../fixtures/schemas/scores.json')

export interface Figures {
  readonly expected: number
  readonly found: number
  readonly wrong: number
}

export type ScoreFigures = Readonly<Record<keyof InitScore, Figures>>

/** By schema: the score when `init` saw it for the first time, and now. */
export type Scores = Readonly<Record<string, { readonly first: ScoreFigures; readonly now: ScoreFigures }>>

export const readScores = (): Scores => JSON.parse(readFileSync(FILE, 'utf8')) as Scores

export function toFigures({ inputs, outputs, filters }: InitScore): ScoreFigures {
  const count = ({ expected, found, wrong }: Tally): Figures => ({ expected, found, wrong: wrong.length })
  return { inputs: count(inputs), outputs: count(outputs), filters: count(filters) }
}

/** Stores measured scores; the first of a schema stays. With SCORE_DETAILS, prints what is missed and wrong. */
export function writeScores(measured: ReadonlyMap<string, InitScore>): void {
  const before = readScores()
  const scores = Object.fromEntries(
    [...measured].map(([name, score]) => {
      const now = toFigures(score)
      return [name, { first: before[name]?.first ?? now, now }]
    }),
  )
  writeFileSync(FILE, `${JSON.stringify({ ...before, ...scores }, null, 2)}\n`)
  if (process.env['SCORE_DETAILS'] !== undefined)
    for (const [name, score] of measured)
      for (const [kind, { missed, wrong }] of Object.entries(score) as Array<[string, Tally]>)
        for (const [word, list] of [
          ['missed', missed],
          ['wrong', wrong],
        ] as const)
          for (const one of list) console.log(`${name} ${kind} ${word}: ${one}`)
}
