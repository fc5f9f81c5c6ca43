import { z } from 'zod'
import { valueAt } from './place.ts'
import type { Path } from './place.ts'

type Schema = z.core.$ZodType

/** The keys that the object at this place of a value may have; of several variants, those that fit the value. */
export function knownKeys(schema: Schema, path: Path, value: unknown): string[] {
  const [key, ...rest] = path
  const here = variants(schema, value)
  if (key !== undefined) {
    return [
      ...new Set(
        here.flatMap((one) =>
          inside(one, key).flatMap((next) => knownKeys(next, rest, valueAt(value, [key]))),
        ),
      ),
    ]
  }
  return [...new Set(here.flatMap((one) => (one instanceof z.ZodObject ? Object.keys(one.shape) : [])))]
}

/** Without the wrappers that have no keys of their own. */
function variants(schema: Schema, value: unknown): Schema[] {
  if (schema instanceof z.ZodOptional) return variants(schema.unwrap(), value)
  if (schema instanceof z.ZodPipe) return variants(schema.in, value)
  if (schema instanceof z.ZodDiscriminatedUnion) {
    const name = schema.def.discriminator
    const fitting = schema.options.filter((option) =>
      inside(option, name).some((one) => z.safeParse(one, valueAt(value, [name])).success),
    )
    return fitting.length > 0 ? fitting : [...schema.options]
  }
  return schema instanceof z.ZodUnion ? schema.options.flatMap((option) => variants(option, value)) : [schema]
}

function inside(schema: Schema, key: PropertyKey): Schema[] {
  if (schema instanceof z.ZodObject) {
    const value: Schema | undefined = schema.shape[String(key)]
    return value === undefined ? [] : [value]
  }
  if (schema instanceof z.ZodRecord) return [schema.valueType]
  if (schema instanceof z.ZodArray) return [schema.element]
  return []
}
