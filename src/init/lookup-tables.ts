import { quoteIfNeeded } from '../sources/quote.ts'
import type { SourceKind } from '../domain/mapping.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { exclusionConditions } from './flags.ts'
import type { IntrospectedTable } from './introspect.ts'
import { isCountryName, isKnownLabel } from './label-maps.ts'
import { type Proposed, labelOutput } from './outputs.ts'
import { type TableRelation } from './relations.ts'
import { type ColumnRole, outputField, rolesOf, scoreName } from './roles.ts'
import { singularize, splitIdentifier, toOwnWords } from './words.ts'

/** A column that refers to a table of countries, industries or the like. */
export interface LookupColumn {
  readonly field: CandidateField
  readonly role: ColumnRole
  /** How a value finds its row, or why not. */
  readonly made: Proposed
}

/** A name with fewer points is that of something else. */
const MIN_POINTS = 70
const KEY_WORD = /^(?:id|slug|code|key|number)$/
const LIST_ROLES = new Set<ColumnRole>(
  'seniority department industry sub_industry employees country state city'.split(' ') as ColumnRole[],
)

/** The columns of a table that refer to lists of labels. Pure. */
export function findLookupColumns(
  kind: SourceKind,
  { table, fields }: IntrospectedTable,
  relations: readonly TableRelation[],
  isParty: (table: IntrospectedTable) => boolean,
): LookupColumn[] {
  const own = toOwnWords(table.name)
  return relations.flatMap((relation) => {
    const { from, to, type, columns } = relation
    const isPlain = from.table.sql === table.sql && from !== to && type === null && columns.length === 1
    const field = fields.find(({ name, path }) => name === columns[0] && path.length === 0)
    if (!isPlain || field === undefined || isParty(to)) return []
    const label = findLabel(relation)
    const role = roleByName(kind, field, own) ?? roleByLabels(kind, label)
    return role === null ? [] : [{ field, role, made: lookupOutput(kind, field, role, relation, label) }]
  })
}

const listRoles = (kind: SourceKind): ColumnRole[] => rolesOf(kind).filter((role) => LIST_ROLES.has(role))

function roleByName(
  kind: SourceKind,
  { words }: CandidateField,
  own: ReadonlySet<string>,
): ColumnRole | null {
  const said = words.filter((word) => !KEY_WORD.test(word)).map(singularize)
  const [best] = listRoles(kind)
    .map((role) => ({ role, points: scoreName(role, said, own) }))
    .toSorted((a, b) => b.points - a.points)
  return best !== undefined && best.points >= MIN_POINTS ? best.role : null
}

/** A list is known by its labels, too, if most of them are the usual ones: `id_tranche` of `1 à 9`, `10 à 49`. */
function roleByLabels(kind: SourceKind, label: CandidateField | undefined): ColumnRole | null {
  const labels = [...new Set(label?.values)]
  const isOf = (role: ColumnRole): boolean =>
    labels.filter((one) => isKnownLabel(role, one)).length >= labels.length * KNOWN_SHARE
  return labels.length < MIN_LABELS ? null : (listRoles(kind).find(isOf) ?? null)
}
const MIN_LABELS = 4
const KNOWN_SHARE = 0.6

const LABEL_NAMES = ['name', 'label', 'title', 'display name', 'full name', 'description', 'value']
const TENANT_KEY = /^(?:tenant|workspace|account|organi[sz]ation|company|team|vault)_?id$/i

/** A name by language: `{"en_US": "Norway"}`. */
const isEnglish = ([key = '']: readonly string[]): boolean => /^en(?:[_-](?:US|GB))?$/i.test(key)

/** The column that says what a row of a list is called. */
function findLabel({ to, targets }: Pick<TableRelation, 'to' | 'targets'>): CandidateField | undefined {
  const own = toOwnWords(to.table.name)
  const labels = to.fields
    .filter(({ column, fit, path, values }) => {
      const isText = fit.kind === 'text' || (path.length === 1 && isEnglish(path))
      return isText && column.canSelect && values.length > 0
    })
    .map((label) => {
      const words = splitIdentifier(label.column.name).filter((word) => !own.has(word))
      return { label, rank: LABEL_NAMES.indexOf(words.join(' ') || 'name') }
    })
  const named = labels.filter(({ rank }) => rank >= 0).toSorted((a, b) => a.rank - b.rank)
  const isKey = ({ label }: { readonly label: CandidateField }): boolean => targets.includes(label.name)
  const [beside, ...more] = labels.filter((one) => !isKey(one))
  // The only text beside the code says what it means, whatever its column is called; a key may be the label itself.
  const best = named.find((one) => !isKey(one)) ?? (more.length === 0 ? beside : undefined) ?? named[0]
  return best?.label
}

/** Finds the row of a list by its label, if one alone has it. */
function lookupOutput(
  kind: SourceKind,
  { name, column }: CandidateField,
  role: ColumnRole,
  { to, from, targets }: TableRelation,
  label: CandidateField | undefined,
): Proposed {
  if (label === undefined) return { column: name, reason: `refers to ${to.sqlName}, which has no names` }
  // Lists may be kept by tenant: the row's own list counts.
  const tenant = to.table.columns.find(
    (one) => TENANT_KEY.test(one.name) && from.table.columns.some((other) => other.name === one.name),
  )
  const scope = tenant && quoteIfNeeded(tenant.name)
  const where = [
    `lower(${fieldSql(label, 'r')}) = lower($value)`,
    ...exclusionConditions(to, 'r', 'company'),
    ...(scope ? [`r.${scope} = t.${scope}`] : []),
  ].join(' and ')
  const key = `(array_agg(r.${quoteIfNeeded(targets[0] ?? '')}))[1]`
  const sql = `(select ${key} from ${to.sqlName} r where ${where} having count(*) = 1)`
  const output = { column: name, field: outputField(kind, role) ?? role, type: column.type.name, sql }
  const { values } = label
  const mapped = role === 'country' && values.every(isCountryName) ? null : labelOutput(output, role, values)
  return mapped === null || 'reason' in mapped ? output : mapped
}
