import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { type Declaration, parseSync, type Program, type TSSignature } from 'oxc-parser'
import { DEMANDS, type Surface } from './schema.ts'

interface Module {
  readonly path: string
  readonly text: string
  readonly program: Program
}

interface Declared {
  readonly name: string
  readonly module: Module
  readonly declaration: Declaration
}

/** Types that a program writes: a member more that is required breaks it. Of what it reads, a member more does not. */
const WRITTEN = /(?:Options|Input|Inputs|Definition|Case|Auth|Failure|Reading|Answer|Meaning)$/

/** The exports of a module, with the members of their types. */
export function listLibrary(path: string): Surface {
  const surface: Surface = { promises: [], demands: [] }
  for (const { name, module, declaration } of listExports(parseModule(path))) {
    const textOf = ({ start, end }: { readonly start: number; readonly end: number }): string =>
      module.text
        .slice(start, end)
        .replaceAll(/\s*\/\*\*[^]*?\*\/\s*|\s+/g, ' ')
        .trim()
    surface.promises.push(`${name}: ${KINDS[declaration.type] ?? declaration.type}`)
    for (const { key, isOptional, text } of listMembers(declaration, textOf)) {
      surface.promises.push(`${name}.${key}${text === '' ? '' : `: ${text}`}`)
      if (!isOptional && WRITTEN.test(name)) surface.demands.push(`${name}${DEMANDS}${key}`)
    }
  }
  return surface
}

const KINDS: Readonly<Record<string, string>> = {
  TSInterfaceDeclaration: 'type',
  TSTypeAliasDeclaration: 'type',
  ClassDeclaration: 'class',
  FunctionDeclaration: 'function',
  VariableDeclaration: 'value',
}

function parseModule(path: string): Module {
  const text = readFileSync(path, 'utf8')
  return { path, text, program: parseSync(path, text).program }
}

function listExports(module: Module): Declared[] {
  const other = (source: { readonly value: string }): Module =>
    parseModule(resolve(dirname(module.path), source.value))
  return module.program.body.flatMap((statement): Declared[] => {
    if (statement.type === 'ExportAllDeclaration') return listExports(other(statement.source))
    if (statement.type !== 'ExportNamedDeclaration') return []
    const { declaration, source, specifiers } = statement
    if (declaration !== null) return listNames(declaration).map((name) => ({ name, module, declaration }))
    if (source === null) return []
    const exported = listExports(other(source))
    return specifiers.flatMap(({ local, exported: as }) => {
      const found = exported.find(({ name }) => 'name' in local && name === local.name)
      if (found === undefined || !('name' in as)) throw new Error(`${module.path}: what does it export?`)
      return { ...found, name: as.name }
    })
  })
}

function listNames(declaration: Declaration): string[] {
  if (declaration.type === 'VariableDeclaration')
    return declaration.declarations.flatMap(({ id }) => (id.type === 'Identifier' ? [id.name] : []))
  return 'id' in declaration && declaration.id?.type === 'Identifier' ? [declaration.id.name] : []
}

interface Member {
  readonly key: string
  readonly isOptional: boolean
  readonly text: string
}

type TextOf = (node: { readonly start: number; readonly end: number }) => string

function listMembers(declaration: Declaration, textOf: TextOf): Member[] {
  switch (declaration.type) {
    case 'TSInterfaceDeclaration':
      return [
        ...declaration.extends.map((one) => ({ key: 'extends', isOptional: true, text: textOf(one) })),
        ...declaration.body.body.flatMap((one) => toMember(one, textOf)),
      ]
    case 'TSTypeAliasDeclaration':
      return declaration.typeAnnotation.type === 'TSTypeLiteral'
        ? declaration.typeAnnotation.members.flatMap((one) => toMember(one, textOf))
        : [{ key: 'is', isOptional: true, text: textOf(declaration.typeAnnotation) }]
    case 'ClassDeclaration':
      return declaration.body.body.flatMap((one): Member[] => {
        if (one.type !== 'MethodDefinition' && one.type !== 'PropertyDefinition') return []
        if (one.key.type === 'PrivateIdentifier' || one.accessibility === 'private') return []
        // The classes are errors: they are caught, and never made by a program.
        if (textOf(one.key) === 'constructor') return []
        const text = one.type === 'MethodDefinition' ? textOfCall(one.value, textOf) : ''
        return [{ key: textOf(one.key), isOptional: true, text }]
      })
    case 'FunctionDeclaration':
      return [{ key: 'takes', isOptional: true, text: textOfCall(declaration, textOf) }]
    default:
      return []
  }
}

/** The parameters and the result of a function, without its body. */
function textOfCall(
  call: { readonly start: number; readonly end: number; readonly body?: unknown },
  textOf: TextOf,
): string {
  const { body } = call
  const end = typeof body === 'object' && body !== null && 'start' in body ? Number(body.start) : call.end
  return textOf({ start: call.start, end }).replace(/^(?:async )?function\*? \w+/, '')
}

function toMember(signature: TSSignature, textOf: TextOf): Member[] {
  if (signature.type !== 'TSPropertySignature' && signature.type !== 'TSMethodSignature') return []
  const text =
    signature.type === 'TSMethodSignature'
      ? textOf(signature)
      : signature.typeAnnotation
        ? textOf(signature.typeAnnotation.typeAnnotation)
        : ''
  return [{ key: textOf(signature.key), isOptional: signature.optional, text }]
}
