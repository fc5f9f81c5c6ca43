import { SCHEMA_MARK } from './repeated-schemas.ts'

/** An object that is longer stands on several lines. */
const MAX_WIDTH = 80

/**
 * A value of a configuration as TypeScript, not indented: an object on one line if it fits, else one entry a line.
 * @param isSql whether a text may be indented on its further lines, as a label of a `map` may not
 */
export function toLiteral(value: unknown, isSql = true): string {
  if (typeof value === 'string') return textLiteral(value, isSql)
  if (Array.isArray(value)) return `[${value.map((one) => toLiteral(one, isSql)).join(', ')}]`
  if (typeof value !== 'object' || value === null) return String(value)
  const pairs = Object.entries(value).map(
    ([name, one]) => `${keyLiteral(name)}: ${toLiteral(one, isSql && name !== 'map')}`,
  )
  if (pairs.length === 0) return '{}'
  const line = `{ ${pairs.join(', ')} }`
  if (!line.includes('\n') && line.length <= MAX_WIDTH) return line
  return `{\n${pairs.map((pair) => `${indent(pair)},`).join('\n')}\n}`
}

export const indent = (text: string): string => text.replaceAll(/(^|\n)(?=[^\n])/g, '$1  ')

/** Text as a literal, with the quotes that need the fewest escapes. */
function textLiteral(text: string, isSql: boolean): string {
  const isPlain = !/[\n\r\\]/.test(text) && !text.includes(SCHEMA_MARK)
  if (isPlain && !text.includes("'")) return `'${text}'`
  if (isPlain && !text.includes('"')) return `"${text}"`
  // A template literal turns a raw carriage return into a line feed.
  if ((!isSql && !text.includes(SCHEMA_MARK)) || text.includes('\r')) return JSON.stringify(text)
  return `\`${text.replaceAll(/[\\`]|\$\{/g, String.raw`\$&`)}\``
}

/** A property name, quoted only if needed. */
export function keyLiteral(name: string): string {
  // A plain `__proto__` key would set the prototype.
  if (name === '__proto__' || name.includes(SCHEMA_MARK)) return `[${textLiteral(name, false)}]`
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : textLiteral(name, false)
}
