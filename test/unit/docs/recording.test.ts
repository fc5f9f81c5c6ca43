import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { drawRecording, type Chunk } from '../../../scripts/terminal-picture.ts'

const OPTIONS = { columns: 20, rows: 3, stillFrom: 'Report', until: 'Bye', label: 'A <run>' }
const begin = '\u001b[?2026h'
const end = '\u001b[?2026l'

/** The texts of each group, with the shares of the time at which they appear and vanish. */
function groups(svg: string): { texts: string[]; shown: string }[] {
  return [...svg.matchAll(/<g class="a[^"]*" style="animation-name:(\w+)">([\s\S]*?)<\/g>/g)].map(
    ([, name = '', body = '']) => ({
      texts: [...body.matchAll(/<text[^>]*>(.*?)<\/text>/g)].map(([, spans = '']) =>
        spans.replaceAll(/<[^>]+>/g, ''),
      ),
      shown: new RegExp(`@keyframes ${name}\\{(.*)\\}`).exec(svg)?.[1] ?? '',
    }),
  )
}

test('each state of a line is visible from its first frame to the one that replaces it', () => {
  const chunks: Chunk[] = [
    { after: 0, text: 'Report\r\n' },
    { after: 5, text: `${begin}50%` },
    // The middle of an update is no frame.
    { after: 5, text: `\r\n${end}` },
    { after: 5, text: `${begin}\u001b[1A\u001b[J100%\r\n${end}` },
    { after: 5, text: 'Bye\r\n' },
  ]
  // Pauses of 5 s are half a second of the picture, and the end rests for 4 s.
  const svg = drawRecording(chunks, OPTIONS)
  expect(svg).toContain('.a{animation:6.0s step-end infinite}')
  expect(groups(svg)).toEqual([
    { texts: ['Report'], shown: '0%{visibility:hidden}0%{visibility:visible}' },
    { texts: ['50%'], shown: '0%{visibility:hidden}16.67%{visibility:visible}25%{visibility:hidden}' },
    { texts: ['100%'], shown: '0%{visibility:hidden}25%{visibility:visible}' },
  ])
  expect(svg).toContain('aria-label="A &lt;run&gt;"')
})

test('what is printed at once is scrolled line by line; without animations the report is shown', () => {
  const lines = ['a', 'b', 'c', 'Report', '1', '2', '3']
  const svg = drawRecording([{ after: 0, text: lines.join('\r\n') }], OPTIONS)
  // Four lines more than the window, eight a second.
  expect(svg).toContain(
    '@keyframes s{0%{transform:none}0%{transform:translateY(0px)}11.11%{transform:translateY(-76px)}100%{transform:translateY(-76px)}}',
  )
  expect(svg).toContain('.s{transform:translateY(-57px);animation:s 4.5s linear infinite}')
  expect(svg).toContain('@media (prefers-reduced-motion:reduce){.a,.s{animation:none}}')
})

test('docs/run.svg is such a recording of a whole demo', () => {
  const svg = readFileSync('docs/run.svg', 'utf8')
  const texts = groups(svg).flatMap((group) => group.texts)
  expect(texts).toEqual(
    expect.arrayContaining([expect.stringMatching(/^── ?The run/), expect.stringMatching(/^Run 1/)]),
  )
  expect(texts.filter((text) => /\d+% {2}[\d,]+ of [\d,]+ rows/.test(text)).length).toBeGreaterThan(10)
})

test('the README fits a first minute', () => {
  expect(readFileSync('README.md', 'utf8').split('\n').length).toBeLessThanOrEqual(121)
})
