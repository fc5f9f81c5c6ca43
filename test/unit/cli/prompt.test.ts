import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { openPrompt, PromptClosedError, parseNumbers } from '../../../src/cli/prompt.ts'
import { Output } from '../../../src/cli/terminal.ts'

describe('numbers of a list', () => {
  test.each<[string, number[] | null]>([
    ['', [1, 2, 3]],
    ['all', [1, 2, 3]],
    ['none', []],
    ['2', [2]],
    ['3, 1', [1, 3]],
    ['1 3', [1, 3]],
    ['1-2', [1, 2]],
    ['2-3,2', [2, 3]],
    ['4', null],
    ['0-2', null],
    ['3-1', null],
    ['one', null],
    ['1,x', null],
  ])('%j', (answer, numbers) => {
    expect(parseNumbers(answer, 3)).toEqual(numbers)
  })
})

function asking(answers: string): { questions: ReturnType<typeof openPrompt>; shown: () => string } {
  let shown = ''
  const input = new PassThrough()
  input.end(answers)
  const output = new Output({ write: (text) => (shown += text) }, { color: false })
  return { questions: openPrompt(input, output), shown: () => shown }
}

test('prompts again until the answer is valid', async () => {
  const { questions, shown } = asking('perhaps\nY\nseven\n1\nno\n')
  expect(await questions.confirm('Take it?')).toBe(true)
  expect(await questions.select('Which?', 2)).toEqual([1])
  expect(await questions.confirm('And this?')).toBe(false)
  questions.close()
  expect(shown()).toBe(
    'Take it?   y or n.\nTake it? Which?   Numbers from 1 to 2, such as 1,2; or all, or none.\nWhich? And this? ',
  )
})

test('an empty answer takes the default', async () => {
  const { questions } = asking('\n\nnone\n')
  expect(await questions.select('Which?', 3, [2])).toEqual([2])
  expect(await questions.select('Which?', 3)).toEqual([1, 2, 3])
  expect(await questions.select('Which?', 3, [2])).toEqual([])
  questions.close()
})

test('the end of the input rejects the prompt', async () => {
  const { questions } = asking('y\n')
  expect(await questions.confirm('Take it?')).toBe(true)
  await expect(questions.confirm('And this?')).rejects.toThrow(PromptClosedError)
  questions.close()
})
