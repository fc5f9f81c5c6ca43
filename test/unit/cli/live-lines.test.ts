import { expect, test } from 'vitest'
import { intoFile, onTerminal } from './terminal.ts'

test('live lines are replaced in place, without a line ever being emptied first', () => {
  const { terminal, output } = onTerminal()
  output.line('before')
  output.live(['one', 'two'])
  expect(terminal.screen).toEqual(['before', 'one', 'two'])
  expect(terminal.cursorShown).toBe(false)
  output.live(['eins, which is longer', 'zwei'])
  output.live(['1', '2'])
  expect(terminal.screen).toEqual(['before', '1', '2'])
  expect(terminal.blanked).toBe(0)
})

test('fewer live lines leave nothing behind, and none gives the cursor back', () => {
  const { terminal, output } = onTerminal()
  output.live(['one', 'two', 'three'])
  output.live(['one'])
  expect(terminal.screen).toEqual(['one'])
  output.live([])
  expect(terminal.screen).toEqual([])
  expect(terminal.cursorShown).toBe(true)
  output.line('after')
  expect(terminal.screen).toEqual(['after'])
})

test('what is written while lines are live appears above them', () => {
  const { terminal, output } = onTerminal()
  output.live(['one', 'two'])
  output.line('a warning')
  output.write('and\nmore\n')
  expect(terminal.screen).toEqual(['a warning', 'and', 'more', 'one', 'two'])
  output.live(['1', '2'])
  expect(terminal.screen).toEqual(['a warning', 'and', 'more', '1', '2'])
})

test('a live line is cut before the edge, so that the terminal never breaks it', () => {
  const { terminal, output } = onTerminal(20)
  output.live(['x'.repeat(50), 'short'])
  expect(terminal.screen).toEqual([`${'x'.repeat(18)}…`, 'short'])
})

test('when nothing is live, nothing but the text is written', () => {
  const { terminal, output } = onTerminal()
  output.live([])
  output.line('plain')
  expect(terminal.raw).toBe('plain\n')
})

test('into a file go neither live lines nor escapes', () => {
  const { text, output } = intoFile()
  output.live(['one', 'two'])
  output.line(output.paint('bad', 'told'))
  output.live([])
  expect(text()).toBe('told\n')
  expect(output.columns).toBeNull()
})
