import { normalizeDomain, normalizeEmail, normalizeProfileUrl } from '../domain/identifiers/addresses.ts'
import type { InputName, SourceKind } from '../domain/mapping.ts'
import { BUILT_IN_FIELDS, type RecordFields } from '../domain/record-fields.ts'
import { shareOf, toCellSql, type Cell } from './cells.ts'
import { isShortList, type Labels } from './conditions.ts'
import {
  FIELD_NAMES,
  isNamedAs,
  isOthersAddress,
  isPersonColumn,
  rankDomainName,
  rankEmailName,
} from './names.ts'
import type { ProposedOutput } from './proposal.ts'

/** A table is a source from this share of its sampled rows on. */
const MIN_SHARE = 0.5
/** Another identifier is an input beside the first from this share on. */
const MIN_OTHER_SHARE = 0.05

interface FoundInput {
  readonly input: InputName
  readonly sql: string
  readonly cells: readonly Cell[]
  /** The share of the sampled rows with a usable value. */
  readonly usable: number
}

export interface Identified {
  readonly kind: SourceKind
  readonly inputs: readonly FoundInput[]
}

/**
 * What the rows of a table are, and by what they can be looked up: addresses and profiles are known by their values; a site needs
 * a name, too, because any URL has a host. Null where too few of the sampled rows hold one. Pure.
 */
export function identify(cells: readonly Cell[]): Identified | null {
  const texts = cells.filter(({ kind }) => kind === 'text')
  const email = findBest(
    'email',
    texts.filter(({ ownName }) => !isOthersAddress(ownName)),
    rankEmailName,
    (value) => normalizeEmail(value)?.ok === true,
  )
  const profile = findBest(
    'linkedin_url',
    texts,
    () => 0,
    (value) => normalizeProfileUrl(value)?.ok === true,
  )
  // The hosts of private mailboxes are not usable: their owner is another company.
  const domain = findBest(
    'domain',
    texts.filter(({ ownName }) => rankDomainName(ownName) > 0),
    rankDomainName,
    (value) => normalizeDomain(value)?.ok === true,
  )
  const isAtLeast = (input: FoundInput | undefined, share: number): input is FoundInput =>
    input !== undefined && input.usable >= share
  const isPerson = cells.some(({ ownName }) => isPersonColumn(ownName)) || isAtLeast(profile, MIN_OTHER_SHARE)
  const hasAddresses = isAtLeast(email, MIN_SHARE) || isAtLeast(profile, MIN_SHARE)
  if (isAtLeast(domain, MIN_SHARE) && !(isPerson && hasAddresses))
    return { kind: 'company', inputs: [domain] }
  if (!hasAddresses) return null
  const found = [email, profile].filter((input) => isAtLeast(input, MIN_OTHER_SHARE))
  return { kind: 'person', inputs: [...found, ...findNameAndCompany(cells)] }
}

/** The cell with usable values whose name says most; one that half of the rows hold comes before one that fewer do. */
function findBest(
  input: InputName,
  cells: readonly Cell[],
  rank: (name: string) => number,
  accepts: (value: string) => boolean,
): FoundInput | undefined {
  const [best] = cells
    .map((cell) => ({ cell, usable: shareOf(cell, accepts), rank: rank(cell.ownName) }))
    .filter(({ usable }) => usable > 0)
    .toSorted(
      (a, b) =>
        Number(b.usable >= MIN_SHARE) - Number(a.usable >= MIN_SHARE) ||
        b.rank - a.rank ||
        b.usable - a.usable,
    )
  return best && { input, sql: toCellSql(best.cell), cells: [best.cell], usable: best.usable }
}

/** Name and company, which together identify a person who has no address. */
function findNameAndCompany(cells: readonly Cell[]): FoundInput[] {
  const find = (field: keyof typeof FIELD_NAMES.person): Cell[] =>
    cells
      .filter(({ kind, ownName }) => kind === 'text' && isNamedAs(ownName, FIELD_NAMES.person[field]))
      .slice(0, 1)
  const parts = [...find('name.first'), ...find('name.last')]
  const names = parts.length === 2 ? parts : find('name.full')
  const [company] = find('company.name')
  const sqls = names.map((cell) => toCellSql(cell))
  const [name] = sqls
  if (company === undefined || name === undefined) return []
  const filledIn = (cell: Cell): number => shareOf(cell, () => true)
  const sql = sqls.length === 1 ? name : `concat_ws(' ', ${sqls.join(', ')})`
  return [
    { input: 'name', sql, cells: names, usable: Math.min(...names.map(filledIn)) },
    { input: 'company', sql: toCellSql(company), cells: [company], usable: filledIn(company) },
  ]
}

/** A column to fill, with the cell that it is. */
type FoundOutput = ProposedOutput & { readonly cell: Cell }

interface OutputContext {
  readonly kind: SourceKind
  /** Cells that identify the row. */
  readonly inputs: readonly Cell[]
  readonly countedLabels: (cell: Cell) => Labels
  /** The labels that an enum or a CHECK allows; empty: any text. */
  readonly allowedLabels: (cell: Cell) => readonly string[]
}

/** The cells that are named as a field of the record and take its values, one for each field. Pure. */
export function findOutputs(cells: readonly Cell[], context: OutputContext): readonly FoundOutput[] {
  const found = Object.entries(FIELD_NAMES[context.kind]).flatMap(([field, names]) =>
    cells
      .filter((cell) => isNamedAs(cell.ownName, names) && isFitting(cell, field, context))
      .slice(0, 1)
      .map((cell) => toOutput(cell, field, context)),
  )
  return found.toSorted((a, b) => cells.indexOf(a.cell) - cells.indexOf(b.cell))
}

/** Whether values of a field go into a cell of its name. */
function isFitting(cell: Cell, field: string, { inputs, kind }: OutputContext): boolean {
  const { isGenerated, isIdentity, type } = cell.column
  const { fit } = type
  if (isGenerated || isIdentity || (cell.path.length > 0 && fit.kind !== 'jsonb')) return false
  const fields: RecordFields[SourceKind] = BUILT_IN_FIELDS[kind]
  if (!(FITTING[fields[field] ?? 'text'] ?? ['text']).includes(cell.kind)) return false
  const present = cell.values.filter((value) => value !== null)
  const areAll = (pattern: RegExp): boolean =>
    present.length > 0 && present.every((value) => pattern.test(value))
  if (field === 'title' && areAll(SALUTATION)) return false
  // A service may send the name of a country, and the column holds codes.
  const isShort = fit.kind === 'text' && (fit.maxLength ?? MIN_NAME_LENGTH) < MIN_NAME_LENGTH
  if (/country|state/.test(field) && (isShort || areAll(/^[A-Z]{2,3}$/))) return false
  // Names that no row lacks need no service.
  if (/^(?:name|email)/.test(field) && present.length > 0.99 * cell.values.length) return false
  // A person has typed the input. Most rows lack a profile.
  return field === 'linkedin' || !inputs.includes(cell)
}

/** A field of few values, which a column may have labels of its own for. */
const LABELLED_FIELD = /^(?:seniority|department|(?:sub_)?industry|(?:employee|revenue)_range)$/
const FITTING: Readonly<Record<string, readonly Cell['kind'][]>> = {
  number: ['integer', 'number'],
  list: ['list'],
}
const SALUTATION = /^(?:mrs?|ms|miss|mx|dr|prof|sir)\.?$/i
/** A shorter column holds the code of a country, and not its name. */
const MIN_NAME_LENGTH = 4

/** With a `map` where an enum, a CHECK or a short list says that the column has labels of its own. */
function toOutput(cell: Cell, field: string, context: OutputContext): FoundOutput {
  const counted = context.countedLabels(cell)
  const isList = LABELLED_FIELD.test(field) && isShortList(counted)
  const allowed = context.allowedLabels(cell)
  const labels = cell.kind !== 'text' ? [] : allowed.length > 0 || !isList ? allowed : [...counted.keys()]
  return {
    cell,
    column: cell.name,
    field,
    filled: shareOf(cell, () => true),
    map: labels.length === 0 ? null : Object.fromEntries(labels.map((label) => [label, label])),
  }
}
