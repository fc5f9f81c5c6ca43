import { styleText } from 'node:util'

/** By meaning, not by colour. Nothing is told by colour alone: it must read the same without. */
const STYLES = {
  heading: 'bold',
  quiet: 'dim',
  good: 'green',
  bad: 'red',
  warn: 'yellow',
  /** What one can type. */
  type: 'cyan',
  bar: 'cyan',
} as const

export type Style = keyof typeof STYLES
export type Paint = (style: Style, text: string) => string

export function painter(color: boolean): Paint {
  if (!color) return (_, text) => text
  return (style, text) => (text === '' ? '' : styleText(STYLES[style], text, { validateStream: false }))
}
