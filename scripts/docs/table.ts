/** Escapes text for a Markdown table cell or paragraph. */
export const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('<', '&lt;')

export function table(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]): string => `| ${cells.map((one) => cell(one)).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
