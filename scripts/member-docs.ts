import { readFileSync } from 'node:fs'
import {
  type Comment,
  parseSync,
  type TSInterfaceDeclaration,
  type TSSignature,
  type TSType,
} from 'oxc-parser'

/** What the JSDoc of a type's member says, and the types of its value. */
export interface DocumentedMember {
  readonly doc: string | null
  readonly types: readonly TSType[]
}

/**
 * Reads the words of type declarations: those that an editor shows for a `fillrate.config.ts` are the only ones, and
 * whatever else describes the configuration takes them from there.
 */
export class MemberDocs {
  readonly #text: string
  readonly #comments: readonly Comment[]
  readonly #declarations = new Map<string, TSInterfaceDeclaration | TSType>()

  constructor(path: URL) {
    this.#text = readFileSync(path, 'utf8')
    const { program, comments } = parseSync(path.pathname, this.#text)
    this.#comments = comments
    for (const statement of program.body) {
      const declared = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement
      if (declared?.type === 'TSInterfaceDeclaration') this.#declarations.set(declared.id.name, declared)
      if (declared?.type === 'TSTypeAliasDeclaration')
        this.#declarations.set(declared.id.name, declared.typeAnnotation)
    }
  }

  /** The members of an interface of the file. */
  membersOfInterface(name: string): Map<string, DocumentedMember> {
    const declaration = this.#declarations.get(name)
    if (declaration?.type !== 'TSInterfaceDeclaration') throw new Error(`there is no interface ${name}`)
    return this.#collect(this.#listSignatures(declaration))
  }

  /** The members of an object of any of these types; the first that says something of a member speaks for all. */
  membersOf(types: readonly TSType[]): Map<string, DocumentedMember> {
    return this.#collect(types.flatMap((type) => this.#signaturesOf(type)))
  }

  /** The types of the items of a list, or of the values of a record. */
  elementsOf(types: readonly TSType[]): TSType[] {
    return types.flatMap((type): TSType[] => {
      if (type.type === 'TSArrayType') return [type.elementType]
      if (type.type === 'TSTypeOperator') return this.elementsOf([type.typeAnnotation])
      if (type.type === 'TSUnionType') return this.elementsOf(type.types)
      if (type.type === 'TSConditionalType') return this.elementsOf([type.trueType, type.falseType])
      if (type.type === 'TSMappedType') return type.typeAnnotation ? [type.typeAnnotation] : []
      if (type.type !== 'TSTypeReference') return []
      const declared = this.#declarations.get(nameOf(type) ?? '')
      if (declared !== undefined)
        return declared.type === 'TSInterfaceDeclaration' ? [] : this.elementsOf([declared])
      const element = type.typeArguments?.params.at(-1)
      if (element === undefined) return []
      return nameOf(type) === 'Readonly' ? this.elementsOf([element]) : [element]
    })
  }

  #collect(signatures: readonly TSSignature[]): Map<string, DocumentedMember> {
    const members = new Map<string, DocumentedMember>()
    for (const signature of signatures) {
      if (signature.type !== 'TSPropertySignature' || signature.key.type !== 'Identifier') continue
      const { name } = signature.key
      const type = signature.typeAnnotation?.typeAnnotation
      const before = members.get(name)
      members.set(name, {
        doc: before?.doc ?? this.#docBefore(signature.start),
        types: [...(before?.types ?? []), ...(type ? [type] : [])],
      })
    }
    return members
  }

  #signaturesOf(type: TSType): readonly TSSignature[] {
    switch (type.type) {
      case 'TSTypeLiteral':
        return type.members
      case 'TSUnionType':
      case 'TSIntersectionType':
        return type.types.flatMap((part) => this.#signaturesOf(part))
      case 'TSConditionalType':
        return [type.trueType, type.falseType].flatMap((part) => this.#signaturesOf(part))
      case 'TSParenthesizedType':
        return this.#signaturesOf(type.typeAnnotation)
      case 'TSTypeReference': {
        const declared = this.#declarations.get(nameOf(type) ?? '')
        if (declared === undefined) return []
        return declared.type === 'TSInterfaceDeclaration'
          ? this.#listSignatures(declared)
          : this.#signaturesOf(declared)
      }
      default:
        return []
    }
  }

  #listSignatures({ body, extends: parents }: TSInterfaceDeclaration): readonly TSSignature[] {
    const inherited = parents.flatMap(({ expression }) => {
      const parent = expression.type === 'Identifier' ? this.#declarations.get(expression.name) : undefined
      return parent?.type === 'TSInterfaceDeclaration' ? this.#listSignatures(parent) : []
    })
    return [...inherited, ...body.body]
  }

  /** The text of the JSDoc right before this place, without its tags. */
  #docBefore(start: number): string | null {
    const comment = this.#comments.findLast(
      ({ end, value }) => end <= start && value.startsWith('*') && this.#text.slice(end, start).trim() === '',
    )
    if (comment === undefined) return null
    const lines = comment.value.slice(1).split('\n')
    const words = lines.map((line) => line.replace(/^\s*\*\s?/, '').trim()).join(' ')
    return words
      .replace(/\s@\w[^]*$/, '')
      .replaceAll(/\s+/g, ' ')
      .trim()
  }
}

const nameOf = (type: TSType): string | null =>
  type.type === 'TSTypeReference' && type.typeName.type === 'Identifier' ? type.typeName.name : null
