import { SCHEMA_MARK } from './repeated-schemas.ts'

/** Text as a JavaScript literal, with the quotes that need the fewest escapes; further lines are indented. */
export function textLiteral(text: string, indent = ''): string {
  const isPlain = !/[\n\r\\]/.test(text) && !text.includes(SCHEMA_MARK)
  if (isPlain && !text.includes("'")) return `'${text}'`
  if (isPlain && !text.includes('"')) return `"${text}"`
  // A template literal turns a raw carriage return into a line feed, so it must be escaped.
  const raw = text.includes('\\') && !/[`\r]|\$\{/.test(text) && !text.endsWith('\\')
  const body = raw
    ? text
    : text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${').replaceAll('\r', '\\r')
  return `${raw ? 'String.raw' : ''}\`${body.replaceAll('\n', `\n${indent}`)}\``
}

/** A property name, quoted only if needed. */
export function keyLiteral(name: string): string {
  // A plain `__proto__` key would set the prototype.
  if (name === '__proto__') return "['__proto__']"
  if (name.includes(SCHEMA_MARK)) return `[${textLiteral(name)}]`
  if (/^[A-Za-z_$][\w$]*$/.test(name)) return name
  return /['\\\n\r]/.test(name) ? JSON.stringify(name) : `'${name}'`
}

/** `{ a: 'b', c: 'd' }` on one line if it fits, else one pair a line. */
export function objectLiteral(
  entries: ReadonlyArray<readonly [name: string, value: string]>,
  indent: string,
  width: number,
): string {
  const pairs = entries.map(([name, value]) => `${keyLiteral(name)}: ${value}`)
  const line = `{ ${pairs.join(', ')} }`
  if (!line.includes('\n') && indent.length + line.length <= width) return line
  return `{\n${pairs.map((pair) => `${indent}  ${pair},`).join('\n')}\n${indent}}`
}

/** The same, with as many pairs on a line as fit. */
export function packedLiteral(
  entries: ReadonlyArray<readonly [name: string, value: string]>,
  indent: string,
  width: number,
): string {
  const whole = objectLiteral(entries, indent, width)
  if (!whole.includes('\n')) return whole
  const lines: string[] = []
  for (const [name, value] of entries) {
    const pair = `${keyLiteral(name)}: ${value},`
    const last = lines.at(-1)
    if (last !== undefined && `${last} ${pair}`.length <= width) lines[lines.length - 1] = `${last} ${pair}`
    else lines.push(`${indent}  ${pair}`)
  }
  return `{\n${lines.join('\n')}\n${indent}}`
}
