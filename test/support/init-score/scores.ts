import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { InitScore, Tally } from './score.ts'

const FILE = join(import.meta.dirname, '../../fixtures/schemas/scores.json')

interface Figures {
  readonly expected: number
  readonly found: number
  readonly wrong: number
}

export const SCORED_KINDS = ['inputs', 'outputs', 'filters'] as const

/** Rows that a proposal does wrong by: those it would look up and must not, unread and answered, and those that wait for an answer. */
type Rows = Pick<InitScore, 'harmed' | 'overlooked' | 'waiting'>

export type ScoreFigures = Readonly<Record<(typeof SCORED_KINDS)[number], Figures>> & {
  /** Cells that a run of the file as it is has written. */
  readonly cells: { readonly written: number; readonly wrong: number }
} & Rows

/** What was measured in one schema. */
export interface Measured {
  score: InitScore | null
  cells: { readonly written: number; readonly wrong: readonly string[] } | null
}

interface SchemaScores {
  /** The group of schemas, first seen together by an `init` that was finished then; absent if it grew with the schema. */
  readonly heldOut?: number
  /** When `init` saw the schema for the first time; its cells and rows were not always judged then. */
  readonly first: Omit<ScoreFigures, 'cells' | keyof Rows> & Partial<Pick<ScoreFigures, 'cells' | keyof Rows>>
  readonly now: ScoreFigures
}

export type Scores = Readonly<Record<string, SchemaScores>>

export const readScores = (): Scores => JSON.parse(readFileSync(FILE, 'utf8')) as Scores

/** Whether measured scores become the floors, instead of being held against them. */
export const isUpdating = process.env['UPDATE_SCORES'] !== undefined

export function toFigures({
  inputs,
  outputs,
  filters,
  harmed,
  overlooked,
  waiting,
}: InitScore): Omit<ScoreFigures, 'cells'> {
  const count = ({ expected, found, wrong }: Tally): Figures => ({ expected, found, wrong: wrong.length })
  return {
    inputs: count(inputs),
    outputs: count(outputs),
    filters: count(filters),
    harmed,
    overlooked,
    waiting,
  }
}

/** Stores measured scores; the first of a schema stays. With SCORE_DETAILS, prints what is missed and wrong. */
export function writeScores(measured: ReadonlyMap<string, Measured>): void {
  const scores: Record<string, SchemaScores> = { ...readScores() }
  for (const [name, { score, cells }] of measured) {
    if (score === null || cells === null) continue
    const now = { ...toFigures(score), cells: { written: cells.written, wrong: cells.wrong.length } }
    scores[name] = { first: now, ...scores[name], now }
    if (process.env['SCORE_DETAILS'] !== undefined) printDetails(name, score, cells.wrong)
  }
  const sorted = Object.fromEntries(Object.entries(scores).toSorted(([a], [b]) => a.localeCompare(b)))
  writeFileSync(FILE, `${JSON.stringify(sorted, null, 2)}\n`)
}

function printDetails(name: string, score: InitScore, wrongCells: readonly string[]): void {
  for (const kind of SCORED_KINDS)
    for (const word of ['missed', 'wrong'] as const)
      for (const one of score[kind][word]) console.log(`${name} ${kind} ${word}: ${one}`)
  for (const one of wrongCells.slice(0, 20)) console.log(`${name} cell wrong: ${one}`)
}
