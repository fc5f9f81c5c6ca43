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
const question = (about: string, leftOut: number, isLeftOut = false): Question => ({
  about,
  when: `${about} is set`,
  keep: `t.${about} is not true`,
  leftOut,
  isLeftOut,
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
  otherColumns: [],
  questions,
  notes: [],
  sample: { rows: 100, identifiedBy: {} },
})

describe('which flags are asked about', () => {
  test('those that would leave out some of the sampled rows, and not all', () => {
    const asked = toQuestions([flag('vip', null), flag('old', null), flag('all', null)], [3, 0, 100], 100)
    expect(asked.map(({ about }) => about)).toEqual(['vip'])
  })

  test('objections to channels are one question', () => {
    const asked = toQuestions([flag('no_fax', 'objection'), flag('no_post', 'objection')], [3, 4], 100)
    expect(asked).toMatchObject([
      { about: 'objections', keep: 't.no_fax is not true and t.no_post is not true', leftOut: 4 },
    ])
  })

  test('at most seven in a database, the likely ones first, and one for a column of several sources', () => {
    const many = Array.from({ length: 9 }, (_, n) => question(`flag_${n}`, n + 1))
    const [contacts, leads] = selectQuestions([
      source('contacts', [...many, question('closed', 1, true)]),
      source('leads', [question('flag_8', 20)]),
    ])
    expect(contacts?.questions.map(({ about }) => about).toSorted()).toEqual([
      'closed',
      ...Array.from({ length: 6 }, (_, n) => `flag_${n + 3}`),
    ])
    expect(leads?.questions).toHaveLength(1)
    expect(contacts?.notes).toEqual(['Not understood, and leaving no row out: flag_0, flag_1, flag_2.'])
  })

  test('a likely one that is not asked still leaves its rows out, and is told', () => {
    const [first] = selectQuestions([
      source(
        'contacts',
        Array.from({ length: 8 }, (_, n) => question(`ended_${n}`, n + 1, true)),
      ),
    ])
    expect(first?.where).toContain('t.ended_0 is not true')
    expect(first?.notes).toEqual(['Left out to be safe: ended_0 is set.'])
  })
})

test('the safe answers hold until others are given', () => {
  const one = source('contacts', [question('closed', 5, true), question('vip', 5)])
  expect(whereOf(one)).toBe('t.deleted_at is null and t.closed is not true')
  const answered = answerQuestions(one, ({ about }) => about === 'vip')
  expect(whereOf(answered)).toBe('t.deleted_at is null and t.vip is not true')
})
