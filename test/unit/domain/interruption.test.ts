import { expect, test } from 'vitest'
import { describeInterruption } from '../../../src/domain/run.ts'
import { FillrateError } from '../../../src/util/error-text.ts'

test.each<[string, string | null, unknown]>([
  ['stopped on request', null, null],
  ['stopped on request', null, new DOMException('This operation was aborted', 'AbortError')],
  ['cancelled by ann', 'ann', null],
  ['another process has taken over', null, new FillrateError('another process has taken over')],
])('%s', (text, cancelledBy, cause) => {
  expect(describeInterruption(cancelledBy, cause)).toBe(text)
})
