import { join, relative } from 'node:path'
import { type Node, type TaggedTemplateExpression } from 'typescript/unstable/ast'
import { isInterfaceDeclaration, isTaggedTemplateExpression } from 'typescript/unstable/ast/is'
import { API, type Checker, type Project, TypeFlags, type Type } from 'typescript/unstable/sync'

// The types that `src` gives to results of SQL, `sql<Row>`, read by the compiler: nothing else holds them against Postgres.

/** What a value of a type may be. Null: anything. */
export type ValueShape = KnownShape | null

interface KnownShape {
  /** Of `kindOf`. */
  readonly kinds: readonly string[]
  /** The only texts, if the type lists them. */
  readonly texts?: readonly string[]
  readonly properties?: Readonly<Record<string, ValueShape>>
  readonly elements?: ValueShape
}

/** By `file:line` of the statement. Null: the type is a parameter of its function. */
export type ResultTypes = Readonly<Record<string, ValueShape>>

export const ROOT = join(import.meta.dirname, '../..')

export function readResultTypes(): ResultTypes {
  return inProject(({ program, checker }) => {
    const types: Record<string, ValueShape> = {}
    for (const name of program.getSourceFileNames()) {
      const path = relative(ROOT, name)
      if (!path.startsWith('src/')) continue
      const file = program.getSourceFile(name)
      if (file === undefined || !file.text.includes('sql<')) continue
      for (const { tag, typeArguments } of listTemplates(file)) {
        const type = typeArguments?.[0] && checker.getTypeFromTypeNode(typeArguments[0])
        const line = file.text.slice(0, tag.end).split('\n').length
        if (tag.getText(file) === 'sql' && type) types[`${path}:${line}`] = toShape(checker, type)
      }
    }
    return types
  })
}

/** The shape of an interface that a file declares. */
export function readInterface(path: string, name: string): ValueShape {
  return inProject(({ program, checker }) => {
    const file = program.getSourceFile(join(ROOT, path))
    const declared = file?.statements.find((one) => isInterfaceDeclaration(one) && one.name.text === name)
    const symbol = declared && isInterfaceDeclaration(declared) && checker.getSymbolAtLocation(declared.name)
    if (!symbol) throw new Error(`${path} declares no interface ${name}.`)
    return toShape(checker, checker.getDeclaredTypeOfSymbol(symbol))
  })
}

function inProject<T>(act: (project: Project) => T): T {
  const api = new API({ cwd: ROOT })
  try {
    const snapshot = api.updateSnapshot({ openProject: join(ROOT, 'tsconfig.json') })
    const project = snapshot.getProject(join(ROOT, 'tsconfig.json'))
    if (project === undefined) throw new Error('The project of tsconfig.json cannot be opened.')
    return act(project)
  } finally {
    api.close()
  }
}

function listTemplates(node: Node): TaggedTemplateExpression[] {
  const found = isTaggedTemplateExpression(node) ? [node] : []
  node.forEachChild((child) => {
    found.push(...listTemplates(child))
  })
  return found
}

const PRIMITIVES: ReadonlyArray<[flags: number, kind: string]> = [
  [TypeFlags.Never, 'never'],
  [TypeFlags.Null, 'null'],
  [TypeFlags.Undefined, 'undefined'],
  [TypeFlags.String | TypeFlags.StringLiteral | TypeFlags.TemplateLiteral, 'string'],
  [TypeFlags.Number | TypeFlags.NumberLiteral, 'number'],
  [TypeFlags.Boolean | TypeFlags.BooleanLiteral, 'boolean'],
]

function toShape(checker: Checker, type: Type, depth = 0): ValueShape {
  if ((type.flags & (TypeFlags.Any | TypeFlags.Unknown | TypeFlags.TypeParameter)) > 0 || depth > 4)
    return null
  if (type.isUnionType() && (type.flags & TypeFlags.Boolean) === 0)
    return merge(type.getTypes().map((one) => toShape(checker, one, depth)))
  const kind = PRIMITIVES.find(([flags]) => (type.flags & flags) > 0)?.[1]
  if (kind !== undefined) return { kinds: [kind], ...(type.isStringLiteralType() && { texts: [type.value] }) }
  const name = type.getSymbol()?.name ?? ''
  if (['Date', 'Buffer'].includes(name)) return { kinds: [name] }
  if (checker.isArrayType(type) && type.isTypeReference()) {
    const [element] = checker.getTypeArguments(type)
    return { kinds: ['array'], elements: element ? toShape(checker, element, depth + 1) : null }
  }
  const symbols = checker.getPropertiesOfType(type)
  const types = checker.getTypeOfSymbol(symbols)
  const properties = symbols.map(({ name: property }, n): [string, ValueShape] => {
    const of = types[n]
    return [property, of ? toShape(checker, of, depth + 1) : null]
  })
  // A record by name has values of one type, and says nothing of its names.
  return { kinds: ['object'], ...(symbols.length > 0 && { properties: Object.fromEntries(properties) }) }
}

function merge(shapes: readonly ValueShape[]): ValueShape {
  const known = shapes.filter((one): one is KnownShape => one !== null)
  if (known.length < shapes.length) return null
  const texts = known.flatMap((one) => one.texts ?? [])
  const isListed = known.every(
    ({ kinds, texts: listed }) => !kinds.includes('string') || listed !== undefined,
  )
  const objects = known.filter(({ kinds }) => kinds.includes('object'))
  const elements = known.find((one) => one.elements !== undefined)?.elements
  return {
    kinds: known.flatMap(({ kinds }) => kinds),
    ...(texts.length > 0 && isListed && { texts }),
    // Which of several objects it is cannot be known.
    ...(objects.length === 1 && objects[0]?.properties && { properties: objects[0].properties }),
    ...(elements !== undefined && { elements }),
  }
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (value instanceof Date) return 'Date'
  return Buffer.isBuffer(value) ? 'Buffer' : typeof value
}

/** Stored as JSON, of which tests store only what they need: the options of a run, the report of a leader. */
const OF_TESTS = /\.(?:options|status)$/

/** What is wrong with a value, by place. A row may have more columns than its type names. */
export function findMismatches(shape: ValueShape, value: unknown, place = 'row'): string[] {
  if (shape === null) return []
  const kind = kindOf(value)
  if (!shape.kinds.includes(kind)) return [`${place} is ${kind}, and by its type ${shape.kinds.join(' or ')}`]
  if (kind === 'string' && shape.texts?.includes(value as string) === false)
    return [`${place} is '${String(value)}', and by its type ${shape.texts.join(' or ')}`]
  if (kind === 'array') {
    const { elements = null } = shape
    return (value as unknown[])
      .slice(0, 3)
      .flatMap((one, n) => findMismatches(elements, one, `${place}[${n}]`))
  }
  const { properties } = shape
  if (kind !== 'object' || properties === undefined || OF_TESTS.test(place)) return []
  const given = value as Readonly<Record<string, unknown>>
  return Object.entries(properties).flatMap(([name, one]) =>
    findMismatches(one, given[name], `${place}.${name}`),
  )
}
