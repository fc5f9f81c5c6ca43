/** Takes two columns on a terminal: CJK, full-width forms and emoji. */
const WIDE =
  /^(?:[\u1100-\u115f\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1b000}-\u{1b2fb}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\p{RGI_Emoji})/v

/** Takes no column of its own: combining marks and the like. */
const NARROWEST = /^[\p{Mn}\p{Me}\p{Cf}]+$/v

/** Colours and other styles, as `paint` makes them; the parentheses keep them when a text is split at them. */
// oxlint-disable-next-line no-control-regex
const STYLES = /(\u001b\[[\d;]*m)/g

const segmenter = new Intl.Segmenter('en', { granularity: 'grapheme' })

function widthOf(grapheme: string): number {
  if (NARROWEST.test(grapheme)) return 0
  return WIDE.test(grapheme) ? 2 : 1
}

/** The columns that a text takes on a terminal. */
export function width(text: string): number {
  const plain = text.replace(STYLES, '')
  if (/^[\u0020-\u007e]*$/.test(plain)) return plain.length
  let sum = 0
  for (const { segment } of segmenter.segment(plain)) sum += widthOf(segment)
  return sum
}

/** The text in at most so many columns, with an ellipsis where it was cut. Styles are kept, so that they end. */
export function cut(text: string, columns: number): string {
  if (width(text) <= columns) return text
  if (columns < 1) return ''
  let room = columns - 1
  let full = false
  let kept = ''
  for (const [n, part] of text.split(STYLES).entries()) {
    if (n % 2 === 1) {
      kept += part
      continue
    }
    for (const { segment } of segmenter.segment(part)) {
      if (full) break
      room -= widthOf(segment)
      full = room < 0
      kept += full ? '…' : segment
    }
  }
  return kept
}

/** Filled up with spaces to so many columns; numbers stand on the right. */
export function pad(text: string, columns: number, side: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, columns - width(text)))
  return side === 'left' ? text + space : space + text
}

/** Broken between words into lines of at most so many columns; a longer word stands on a line of its own. */
export function wrap(text: string, columns: number): string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = []
    let line: string | null = null
    for (const word of paragraph.split(' ')) {
      if (line === null) line = word
      else if (width(line) + 1 + width(word) <= columns) line += ` ${word}`
      else {
        lines.push(line)
        line = word
      }
    }
    lines.push(line ?? '')
    return lines
  })
}

/**
 * Fit to be shown: a key or a reason comes from a database that others write to, and must not be able to move the
 * cursor, clear the screen or turn the direction of writing.
 */
export function clean(text: string): string {
  return text.replace(/[\t\n\r]+/g, ' ').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '\ufffd')
}
