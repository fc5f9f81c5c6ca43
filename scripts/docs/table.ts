/** Text as a cell of a table holds it, or as a paragraph: what would be markup is none. */
export const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('<', '&lt;')

export function table(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]): string => `| ${cells.map((one) => cell(one)).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
