import { z } from 'zod'

/** The keys that an object at this place of the schema may have, all variants together. */
export function knownKeys(schema: z.core.$ZodType, path: readonly PropertyKey[]): string[] {
  return [
    ...new Set(
      variants([schema], path).flatMap((one) => (one instanceof z.ZodObject ? Object.keys(one.shape) : [])),
    ),
  ]
}

function variants(schemas: readonly z.core.$ZodType[], path: readonly PropertyKey[]): z.core.$ZodType[] {
  const here = schemas.flatMap(unwrap)
  const [key, ...rest] = path
  return key === undefined
    ? here
    : variants(
        here.flatMap((one) => inside(one, key)),
        rest,
      )
}

/** Without the wrappers that have no keys of their own. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType[] {
  if (schema instanceof z.ZodOptional) return unwrap(schema.unwrap())
  if (schema instanceof z.ZodPipe) return unwrap(schema.in)
  if (schema instanceof z.ZodUnion) return schema.options.flatMap(unwrap)
  return [schema]
}

function inside(schema: z.core.$ZodType, key: PropertyKey): z.core.$ZodType[] {
  if (schema instanceof z.ZodObject) {
    const value: z.core.$ZodType | undefined = schema.shape[String(key)]
    return value === undefined ? [] : [value]
  }
  if (schema instanceof z.ZodRecord) return [schema.valueType]
  if (schema instanceof z.ZodArray) return [schema.element]
  return []
}
