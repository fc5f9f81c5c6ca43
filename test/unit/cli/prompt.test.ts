import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { openPrompt, PromptClosedError } from '../../../src/cli/confirm.ts'
import { Output } from '../../../src/cli/terminal.ts'

function asking(answers: string): { questions: ReturnType<typeof openPrompt>; shown: () => string } {
  let shown = ''
  const input = new PassThrough()
  input.end(answers)
  const output = new Output({ write: (text) => (shown += text) }, { color: false })
  return { questions: openPrompt(input, output), shown: () => shown }
}

test('prompts again until the answer is valid', async () => {
  const { questions, shown } = asking('perhaps\nY\nno\n')
  expect(await questions.confirm('Take it?')).toBe(true)
  expect(await questions.confirm('And this?')).toBe(false)
  questions.close()
  expect(shown()).toBe('Take it?   y or n.\nTake it? And this? ')
})

test('an empty answer takes the default', async () => {
  const { questions } = asking('\n\n')
  expect(await questions.confirm('Take it?')).toBe(true)
  expect(await questions.confirm('And this?', false)).toBe(false)
  questions.close()
})

test('the end of the input rejects the prompt', async () => {
  const { questions } = asking('y\n')
  expect(await questions.confirm('Take it?')).toBe(true)
  await expect(questions.confirm('And this?')).rejects.toThrow(PromptClosedError)
  questions.close()
})
