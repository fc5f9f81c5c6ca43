/** One cell of a terminal screen. */
export interface Cell {
  readonly text: string
  /** The colour's number in the escape sequence, such as 31 for red; null: default. */
  readonly color: number | null
  readonly bold: boolean
  readonly dim: boolean
}

const BLANK: Cell = { text: ' ', color: null, bold: false, dim: false }

/** The screen of a terminal after this output, including lines scrolled away. Supports what our own output uses. Pure. */
export function renderScreen(written: string): readonly (readonly Cell[])[] {
  const lines: Cell[][] = [[]]
  let row = 0
  let column = 0
  let style: Omit<Cell, 'text'> = BLANK
  // oxlint-disable-next-line no-control-regex -- escape sequences are control characters
  for (const [token] of written.matchAll(/\u001b\[[0-9;?]*[A-Za-z]|[\s\S]/gu)) {
    if (token === '\n') row++
    else if (token === '\r') column = 0
    else if (token.length > 2) command(token)
    else {
      const line = (lines[row] ??= [])
      while (line.length < column) line.push(BLANK)
      line[column++] = { ...style, text: token }
    }
    while (lines.length <= row) lines.push([])
  }
  return lines

  function command(token: string): void {
    const numbers = token.slice(2, -1).split(';').map(Number)
    switch (token.at(-1)) {
      case 'A':
        row = Math.max(0, row - (numbers[0] || 1))
        return
      case 'K':
        lines[row]?.splice(column)
        return
      case 'J':
        lines[row]?.splice(column)
        lines.splice(row + 1)
        return
      case 'm':
        for (const n of numbers) style = styled(n)
    }
  }

  function styled(n: number): Omit<Cell, 'text'> {
    if (n === 0) return BLANK
    if (n === 1) return { ...style, bold: true }
    if (n === 2) return { ...style, dim: true }
    if (n === 22) return { ...style, bold: false, dim: false }
    if (n === 39) return { ...style, color: null }
    return (n >= 30 && n < 38) || (n >= 90 && n < 98) ? { ...style, color: n } : style
  }
}
