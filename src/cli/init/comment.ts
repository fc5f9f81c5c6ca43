import { wrap } from '../render/text.ts'

/** The width of a line in a file that is written for people. */
export const LINE_WIDTH = 100

/** A text as lines of comment; none where there is nothing to say. */
export const commentLines = (text: string, at: string): string[] =>
  text === '' ? [] : wrap(text, LINE_WIDTH - at.length - 3).map((line) => `${at}// ${line}`)
