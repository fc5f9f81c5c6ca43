import { wrapText } from '../terminal.ts'

/** Line width of the generated file. */
export const LINE_WIDTH = 100

/** Text as comment lines; none for an empty text. */
export const commentLines = (text: string, at: string): string[] =>
  text === '' ? [] : wrapText(text, LINE_WIDTH - at.length - 3).map((line) => `${at}// ${line}`)
