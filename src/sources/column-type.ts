/** What a column can hold, from the catalogue; domains are resolved to their base type. */
export type Fit =
  | {
      readonly kind: 'text'
      /** In characters. */
      readonly maxLength: number | null
      /** Of `name` and `"char"`: the limit is in bytes. */
      readonly maxBytes?: number
    }
  /** `bit(n)`, of exactly that length, and `bit varying(n)`. */
  | { readonly kind: 'bits'; readonly length: number | null; readonly exact: boolean }
  | { readonly kind: 'integer'; readonly bits: 16 | 32 | 64 }
  | { readonly kind: 'float'; readonly bits: 32 | 64 }
  | { readonly kind: 'numeric'; readonly precision: number | null; readonly scale: number }
  | { readonly kind: 'boolean' | 'date' | 'timestamp' | 'timestamptz' | 'uuid' | 'json' | 'jsonb' }
  | { readonly kind: 'enum'; readonly labels: readonly string[] }
  | { readonly kind: 'array'; readonly element: Fit }
  /** An unknown type: values go as text, and the database checks them. */
  | { readonly kind: 'other' }

export interface ColumnType {
  /** As `format_type` writes it: `character varying(80)`, `crm.stage`. */
  readonly name: string
  /**
   * The type to cast a value to: the base type of domains. Without the length for text, because an explicit cast
   * truncates silently.
   */
  readonly cast: string
  readonly isDomain: boolean
  readonly fit: Fit
}

/** A base type as pg_type and pg_attribute describe it. */
export interface RawType {
  readonly typname: string
  readonly typtype: string
  readonly typmod: number
  readonly labels: readonly string[]
  readonly element: Omit<RawType, 'element' | 'typmod'> | null
}

/** Parses what a type can hold. The meaning of `typmod` is from Postgres's utils/adt (varchar.c, numeric.c). */
export function parseFit(type: RawType): Fit {
  if (type.element)
    return { kind: 'array', element: parseFit({ ...type.element, typmod: type.typmod, element: null }) }
  if (type.typtype === 'e') return { kind: 'enum', labels: type.labels }
  switch (type.typname) {
    case 'text':
    case 'citext':
      return { kind: 'text', maxLength: null }
    case 'varchar':
    case 'bpchar':
      return { kind: 'text', maxLength: type.typmod < 4 ? null : type.typmod - 4 }
    case 'name':
      return { kind: 'text', maxLength: null, maxBytes: 63 }
    case 'char':
      return { kind: 'text', maxLength: null, maxBytes: 1 }
    case 'bit':
    case 'varbit':
      return { kind: 'bits', length: type.typmod > 0 ? type.typmod : null, exact: type.typname === 'bit' }
    case 'int2':
      return { kind: 'integer', bits: 16 }
    case 'int4':
      return { kind: 'integer', bits: 32 }
    case 'int8':
      return { kind: 'integer', bits: 64 }
    case 'float4':
      return { kind: 'float', bits: 32 }
    case 'float8':
      return { kind: 'float', bits: 64 }
    case 'numeric':
      return parseNumericFit(type.typmod)
    case 'bool':
      return { kind: 'boolean' }
    case 'date':
    case 'timestamp':
    case 'timestamptz':
    case 'uuid':
    case 'json':
    case 'jsonb':
      return { kind: type.typname }
    default:
      return { kind: 'other' }
  }
}

/** The scale is an 11-bit signed number since Postgres 15, and a small positive one before. */
function parseNumericFit(typmod: number): Fit {
  if (typmod < 4) return { kind: 'numeric', precision: null, scale: 0 }
  const packed = typmod - 4
  return { kind: 'numeric', precision: (packed >> 16) & 0xffff, scale: ((packed & 0x7ff) ^ 1024) - 1024 }
}

/**
 * The type to cast a value to before its length is checked: these types' own casts truncate or pad silently.
 */
export function wideCast({ cast, fit }: ColumnType): string {
  if (fit.kind === 'bits') return 'bit varying'
  return fit.kind === 'text' && fit.maxBytes !== undefined ? 'text' : cast
}

/** Whether the type is text, whose explicit cast must not carry a length. */
export const isTextFit = (fit: Fit): boolean =>
  fit.kind === 'text' || (fit.kind === 'array' && isTextFit(fit.element))
