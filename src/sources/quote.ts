/** An identifier in double quotes, which keeps its case, reserved words and dots. */
export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** A text as an SQL literal, whatever `standard_conforming_strings` is set to. */
export function quoteLiteral(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`
  return text.includes('\\') ? `E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

/** Texts as an SQL array of text. */
export const quoteList = (texts: readonly string[]): string =>
  texts.length === 0 ? `'{}'::text[]` : `array[${texts.map(quoteLiteral).join(', ')}]`

/** The parts of a dotted name, without surrounding white space. */
const SEGMENTS = /"(?:[^"]|"")*"|[^."\s](?:[^."]*[^."\s])?/g

/** Splits `attributes."a.b"` into `attributes` and `a.b`. Nothing is folded to lower case. */
export function splitName(name: string): string[] {
  return [...name.matchAll(SEGMENTS)].map(([part]) => unquote(part))
}

/** The opposite of `splitName`: quotes only where they are needed. */
export const joinName = (parts: readonly string[]): string =>
  parts.map((part) => (/[."\s]/.test(part) || part === '' ? quoteName(part) : part)).join('.')

/** Parses a table's name as Postgres does: without quotes, it is folded to lower case. */
export function parseTableName(name: string): { readonly schema: string | null; readonly table: string } {
  const parts = [...name.matchAll(SEGMENTS)].map(([part]) =>
    part.startsWith('"') ? unquote(part) : part.toLowerCase(),
  )
  const table = parts.at(-1) ?? ''
  return { schema: parts.length > 1 ? (parts.at(-2) ?? null) : null, table }
}

/** A name as it must appear in the configuration's `table`: quoted only where folding would change it. */
export const formatTableName = (schema: string, table: string): string =>
  [schema, table].map(quoteIfNeeded).join('.')

/** Quotes a name only if it needs it: after a dot, a reserved word does not. */
export const quoteIfNeeded = (name: string): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) ? name : quoteName(name)

const unquote = (name: string): string =>
  /^".*"$/s.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name
