import { SCHEMA_MARK } from './repeated-schemas.ts'

/** Line width of the generated file. */
export const LINE_WIDTH = 100

/**
 * A value of a configuration as TypeScript: an object on one line if it fits, else one entry a line. Further lines of SQL are
 * indented, the labels of a `map` stay as they are.
 */
export function toLiteral(value: unknown, indent = '', textIndent = indent && `${indent}  `): string {
  if (typeof value === 'string') return textLiteral(value, textIndent)
  if (Array.isArray(value)) return `[${value.map((one) => toLiteral(one)).join(', ')}]`
  if (typeof value !== 'object' || value === null) return String(value)
  const pairs = Object.entries(value).map(
    ([name, one]) =>
      `${keyLiteral(name)}: ${toLiteral(one, `${indent}  `, name === 'map' ? '' : textIndent && `${textIndent}  `)}`,
  )
  if (pairs.length === 0) return '{}'
  const line = `{ ${pairs.join(', ')} }`
  if (!line.includes('\n') && indent.length + line.length <= LINE_WIDTH - 10) return line
  return `{\n${pairs.map((pair) => `${indent}  ${pair},`).join('\n')}\n${indent}}`
}

/** Text as a literal, with the quotes that need the fewest escapes; further lines are indented. */
function textLiteral(text: string, indent: string): string {
  const isPlain = !/[\n\r\\]/.test(text) && !text.includes(SCHEMA_MARK)
  if (isPlain && !text.includes("'")) return `'${text}'`
  if (isPlain && !text.includes('"')) return `"${text}"`
  // A template literal turns a raw carriage return into a line feed, so it must be escaped.
  const raw = text.includes('\\') && !/[`\r]|\$\{/.test(text) && !text.endsWith('\\')
  const body = raw ? text : text.replaceAll(/[\\`]|\$\{/g, String.raw`\$&`).replaceAll('\r', String.raw`\r`)
  return `${raw ? 'String.raw' : ''}\`${body.replaceAll('\n', `\n${indent}`)}\``
}

/** A property name, quoted only if needed. */
export function keyLiteral(name: string): string {
  // A plain `__proto__` key would set the prototype.
  if (name === '__proto__' || name.includes(SCHEMA_MARK)) return `[${textLiteral(name, '')}]`
  if (/^[A-Za-z_$][\w$]*$/.test(name)) return name
  return /['\\\n\r]/.test(name) ? JSON.stringify(name) : `'${name}'`
}
