/** A type whose arrays can be sent, by its name in SQL. */
export type ArrayType = keyof typeof TYPES

interface ElementType {
  readonly oid: number
  /** Bytes of a value; null: those of its text. */
  readonly size: number | null
  readonly write: (into: Buffer, value: never, at: number) => void
  /** The text of a value, where its size is that. */
  readonly text?: (value: never) => string
}

const writeText = (into: Buffer, text: string, at: number): void => {
  into.write(text, at)
}

/** Identifiers of types and formats of values: src/include/catalog/pg_type.dat and the `*_recv` functions of Postgres. */
const TYPES = {
  boolean: { oid: 16, size: 1, write: (into, value: boolean, at) => void into.writeUInt8(value ? 1 : 0, at) },
  smallint: {
    oid: 21,
    size: 2,
    write: (into, value: number, at) => void into.writeInt16BE(whole(value), at),
  },
  integer: { oid: 23, size: 4, write: (into, value: number, at) => void into.writeInt32BE(whole(value), at) },
  bigint: { oid: 20, size: 8, write: (into, value: number, at) => writeInt64(into, whole(value), at) },
  'double precision': {
    oid: 701,
    size: 8,
    write: (into, value: number, at) => void into.writeDoubleBE(value, at),
  },
  text: { oid: 25, size: null, write: writeText, text: (value: string) => value },
  json: {
    oid: 114,
    size: null,
    write: writeText,
    text: (value: unknown) => cleanJson(JSON.stringify(value)),
  },
  // The format of jsonb has a version before the text.
  jsonb: {
    oid: 3802,
    size: null,
    write: writeText,
    text: (value: unknown) => `\u0001${JSON.stringify(value)}`,
  },
  uuid: {
    oid: 2950,
    size: 16,
    write: (into, value: string, at) => {
      if (into.write(value.replaceAll('-', ''), at, 'hex') !== 16)
        throw new RangeError(`not a UUID: ${value}`)
    },
  },
  timestamptz: {
    oid: 1184,
    size: 8,
    write: (into, value: Date | string, at) => writeInt64(into, microsecondsOf(value) - EPOCH_US, at),
  },
  // A page and a place in it: `(12,3)`.
  tid: {
    oid: 27,
    size: 6,
    write: (into, value: string, at) => {
      const comma = value.indexOf(',')
      into.writeUInt32BE(Number(value.slice(1, comma)), at)
      into.writeUInt16BE(Number(value.slice(comma + 1, -1)), at + 4)
    },
  },
} satisfies Record<string, ElementType>

/**
 * Postgres stores these escapes of NUL and lone surrogates as json, and then fails in every `->>` that reads the value. As
 * jsonb it refuses them. `JSON.stringify` escapes a surrogate only if it is alone; any other escape is kept as a whole.
 */
const cleanJson = (json: string): string =>
  json.includes('\\u')
    ? json.replaceAll(/\\(?:u0000|ud[89a-f][0-9a-f]{2}|.)/g, (escape) =>
        /^\\u(?:0000|d)/.test(escape) ? '' : escape,
      )
    : json

/** Postgres counts from 2000-01-01. */
const EPOCH_US = Date.UTC(2000, 0, 1) * 1_000

/** Within 2^53: exact for any year up to 2255. */
function microsecondsOf(time: Date | string): number {
  const ms = time instanceof Date ? time.getTime() : Date.parse(time)
  if (Number.isNaN(ms)) throw new RangeError(`not a time: ${String(time)}`)
  const below = time instanceof Date ? '' : (/\.\d{3}(\d{1,3})/.exec(time)?.[1] ?? '')
  return ms * 1_000 + Number(below.padEnd(3, '0'))
}

/** Node writes the whole part of a fraction, and zero for NaN. */
function whole(value: number): number {
  if (!Number.isSafeInteger(value)) throw new RangeError(`not a whole number: ${value}`)
  return value
}

function writeInt64(into: Buffer, value: number, at: number): void {
  const high = Math.floor(value / 2 ** 32)
  into.writeInt32BE(high, at)
  into.writeUInt32BE(value - high * 2 ** 32, at + 4)
}

const HEADER_BYTES = 20

/**
 * An array as a parameter in Postgres's binary format: nothing is escaped here and no text of a whole batch is parsed there,
 * which for JSON took longer than to store what it holds. The driver sends a Buffer as binary. An array without any value
 * is sent empty: `unnest` of several arrays fills the shorter ones with NULL.
 * @param values null, undefined, NaN and infinities become NULL, as JSON writes them
 * @throws RangeError for a value that is none of the type
 * @example sql`select * from unnest(${postgresArray('bigint', [1, 2])}::bigint[], ${postgresArray('jsonb', [{}, null])}::jsonb[])`
 * @see https://www.postgresql.org/docs/current/protocol-overview.html#PROTOCOL-FORMAT-CODES, array_recv in arrayfuncs.c
 */
export function postgresArray(type: ArrayType, values: readonly unknown[]): Buffer {
  const { oid, size, write, text }: ElementType = TYPES[type]
  const isEmpty = values.every(isMissing)
  const texts = size === null && !isEmpty ? values.map((value) => textOf(value, text)) : null
  let bytes = isEmpty ? HEADER_BYTES - 8 : HEADER_BYTES
  const sizes = isEmpty
    ? []
    : values.map((value, n) => {
        const own = isMissing(value) ? -1 : (size ?? Buffer.byteLength(texts?.[n] ?? ''))
        bytes += 4 + Math.max(own, 0)
        return own
      })
  const buffer = Buffer.allocUnsafe(bytes)
  buffer.writeInt32BE(isEmpty ? 0 : 1, 0)
  buffer.writeInt32BE(sizes.includes(-1) ? 1 : 0, 4)
  buffer.writeUInt32BE(oid, 8)
  if (isEmpty) return buffer
  buffer.writeInt32BE(values.length, 12)
  buffer.writeInt32BE(1, 16)
  let at = HEADER_BYTES
  for (const [n, own] of sizes.entries()) {
    buffer.writeInt32BE(own, at)
    at += 4
    if (own === -1) continue
    write(buffer, (texts === null ? values[n] : texts[n]) as never, at)
    at += own
  }
  return buffer
}

const textOf = (value: unknown, text: ElementType['text']): string =>
  isMissing(value) || text === undefined ? '' : text(value as never)

const isMissing = (value: unknown): boolean =>
  value === null || value === undefined || (typeof value === 'number' && !Number.isFinite(value))
