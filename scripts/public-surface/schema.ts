import type { z } from 'zod'

type Schema = z.core.JSONSchema.BaseSchema

/** What users can rely on, and what they have to give: a line each. A line of the latter begins with the place that it is of. */
export interface Surface {
  readonly promises: string[]
  readonly demands: string[]
}

/** Between the place and what it demands. */
export const DEMANDS = ' demands '

const CONSTRAINTS = [
  'pattern',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
] as const

/**
 * The lines of a JSON Schema. Of what users write, each alternative and value is a promise, and what is required a demand; of
 * what they read, a field that is always there is a promise, and so is that it is of no other type.
 */
export function listSchema(
  schema: unknown,
  path: string,
  direction: 'written' | 'read',
  surface: Surface,
): void {
  if (typeof schema !== 'object' || schema === null) return
  const one = schema as Schema
  const { promises, demands } = surface
  if (direction === 'read') promises.push(`${path}: ${describeTypes(one).toSorted().join(' or ')}`)
  for (const part of listAlternatives(one)) {
    if (direction === 'written') promises.push(`${path}: ${describeTypes(part).join()}`)
    for (const value of part.enum ?? (part.const === undefined ? [] : [part.const]))
      promises.push(`${path} = ${JSON.stringify(value)}`)
    if (direction === 'written' && part.default !== undefined)
      promises.push(`${path} default ${JSON.stringify(part.default)}`)
    for (const name of direction === 'written' ? CONSTRAINTS : [])
      if (part[name] !== undefined) demands.push(`${path}${DEMANDS}${name} ${JSON.stringify(part[name])}`)
    if (direction === 'written' && part.propertyNames !== undefined)
      demands.push(`${path}${DEMANDS}names ${JSON.stringify(part.propertyNames)}`)
    for (const [name, property] of Object.entries(part.properties ?? {})) {
      const isRequired = part.required?.includes(name) === true
      if (isRequired && direction === 'written') demands.push(`${path}${DEMANDS}${name}`)
      if (isRequired && direction === 'read') promises.push(`${path}.${name} is always there`)
      listSchema(property, `${path}.${name}`, direction, surface)
    }
    listSchema(part.additionalProperties, `${path}.*`, direction, surface)
    listSchema(part.items, `${path}[]`, direction, surface)
  }
}

function listAlternatives(schema: Schema): Schema[] {
  const parts = schema.anyOf ?? schema.oneOf
  if (parts === undefined) return [schema]
  const { default: given } = schema
  // The default stands beside the alternatives.
  return parts.flatMap((part, n) =>
    listAlternatives({ ...(part as Schema), ...(n === 0 && given !== undefined && { default: given }) }),
  )
}

function describeTypes(schema: Schema): string[] {
  const types = listAlternatives(schema).flatMap((part): string[] => {
    if (part.$ref !== undefined) return [part.$ref.replace(/^.*\//, '')]
    if (part.enum !== undefined || part.const !== undefined)
      return (part.enum ?? [part.const]).map((value) => (value === null ? 'null' : typeof value))
    return [part.type ?? 'any'].flat()
  })
  return [...new Set(types)]
}
