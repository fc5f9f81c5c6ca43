import { describe, expect, test } from 'vitest'
import type { RowFlag } from '../../../src/init/flag-sql.ts'
import type { ProposedSource, Question } from '../../../src/init/proposal.ts'
import { answerQuestions, selectQuestions, toQuestions, whereOf } from '../../../src/init/questions.ts'

const flag = (column: string, meaning: RowFlag['meaning']): RowFlag => ({
  column,
  meaning,
  when: `${column} is set`,
  keep: `t.${column} is not true`,
  isSure: false,
})
const question = (about: string, leftOut: number, isUnderstood = false): Question => ({
  about,
  when: `${about} is set`,
  keep: `t.${about} is not true`,
  leftOut,
  isLeftOut: isUnderstood || leftOut <= 30,
  isUnderstood,
  isSure: false,
  isOfOther: false,
})
const source = (name: string, questions: readonly Question[]): ProposedSource => ({
  name,
  kind: 'person',
  table: name,
  rows: 100,
  joins: null,
  key: null,
  where: 't.deleted_at is null',
  changedAt: null,
  freshness: null,
  touch: null,
  inputs: [],
  outputs: [],
  skippedColumns: [],
  questions,
  notes: [],
  sample: { rows: 100, identifiedBy: {} },
})

describe('which flags are asked about', () => {
  test('those that would leave out some of the sampled rows, and not most', () => {
    const { questions } = toQuestions(
      [flag('vip', null), flag('old', null), flag('most', null), flag('all', null)],
      [3, 0, 60, 100],
      100,
    )
    expect(questions.map(({ about }) => about)).toEqual(['vip'])
  })

  test('what few rows have is left out until somebody answers; what many have is not', () => {
    const { questions } = toQuestions([flag('rare', null), flag('common', null)], [30, 31], 100)
    expect(questions.map(({ about, isLeftOut }) => [about, isLeftOut])).toEqual([
      ['rare', true],
      ['common', false],
    ])
  })

  test('of the labels of one column, the rarest, as long as few rows are concerned in all', () => {
    const label = (word: string): RowFlag => ({ ...flag('state', null), when: `state is ${word}` })
    const { questions } = toQuestions([label('a'), label('b'), label('c')], [20, 5, 15], 100)
    expect(questions.map(({ when, isLeftOut }) => [when, isLeftOut])).toEqual([
      ['state is a', false],
      ['state is b', true],
      ['state is c', true],
    ])
  })

  test('tags, and what is said of another row, are left out only where they are rarer', () => {
    const { questions } = toQuestions(
      [
        { ...flag('tag', null), isTag: true },
        { ...flag('company', null), isOfOther: true },
      ],
      [11, 21],
      100,
    )
    expect(questions.map(({ isLeftOut }) => isLeftOut)).toEqual([false, false])
  })

  test('a reason by its name that no sampled row has is left out without a question', () => {
    const made = toQuestions([flag('closed', 'gone'), flag('vip', null)], [0, 0], 100)
    expect(made).toEqual({ questions: [], conditions: ['t.closed is not true'] })
  })

  test('at most sixteen of a source: reasons by their names, then what is left out, then what most rows have', () => {
    const many = Array.from({ length: 18 }, (_, n) => question(`flag_${n}`, n + 21))
    const [contacts] = selectQuestions([source('contacts', [...many, question('closed', 1, true)])])
    expect(contacts?.questions.map(({ about }) => about)).toEqual([
      'closed',
      ...[9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 17, 16, 15, 14, 13].map((n) => `flag_${n}`),
    ])
    expect(contacts?.notes).toEqual([
      'Not understood, and leaving no row out: flag_12 is set; flag_11 is set; flag_10 is set.',
    ])
  })

  test('of six sources: the largest', () => {
    const sources = selectQuestions(
      Array.from({ length: 9 }, (_, n) => ({ ...source(`s${n}`, [question('odd', 3)]), rows: n })),
    )
    expect(sources.flatMap(({ name, questions }) => (questions.length > 0 ? [name] : []))).toEqual(
      [3, 4, 5, 6, 7, 8].map((n) => `s${n}`),
    )
  })

  test('what is not asked and might be a reason still leaves its rows out, and is told', () => {
    const ended = Array.from({ length: 17 }, (_, n) => question(`ended_${n}`, n + 1, true))
    const rare = { ...question('odd', 1), isLeftOut: true, isUnderstood: false }
    const [first] = selectQuestions([source('contacts', [...ended, rare])])
    expect(first?.where).toBe('t.deleted_at is null and t.ended_0 is not true')
    expect(first?.notes).toEqual([
      'Left out to be safe: ended_0 is set.',
      'Not understood, and leaving no row out: odd is set.',
    ])
  })
})

test('the safe answers hold until others are given', () => {
  const one = source('contacts', [question('closed', 5, true), question('vip', 50)])
  expect(whereOf(one)).toBe('t.deleted_at is null and t.closed is not true')
  const answered = answerQuestions(one, ({ about }) => about === 'vip')
  expect(whereOf(answered)).toBe('t.deleted_at is null and t.vip is not true')
})
