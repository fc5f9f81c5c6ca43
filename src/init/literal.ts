/** A text as JavaScript, in the quotes that need the fewest escapes; several lines are indented alike. */
export function textLiteral(text: string, indent = ''): string {
  const isPlain = !/[\n\r\\]/.test(text)
  if (isPlain && !text.includes("'")) return `'${text}'`
  if (isPlain && !text.includes('"')) return `"${text}"`
  // A template turns a carriage return into a line feed, so that it must be escaped; raw, it could not be.
  const raw = text.includes('\\') && !/[`\r]|\$\{/.test(text) && !text.endsWith('\\')
  const body = raw
    ? text
    : text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${').replaceAll('\r', '\\r')
  return `${raw ? 'String.raw' : ''}\`${body.replaceAll('\n', `\n${indent}`)}\``
}

/** A property's name, in quotes only where it must be. */
export function keyLiteral(name: string): string {
  // As a plain key it would set the prototype.
  if (name === '__proto__') return "['__proto__']"
  if (/^[A-Za-z_$][\w$]*$/.test(name)) return name
  return /['\\\n\r]/.test(name) ? JSON.stringify(name) : `'${name}'`
}

/** `{ a: 'b', c: 'd' }` on one line where it fits, else each pair on its own. */
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

/** The same with as many pairs on a line as there is room for. */
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
