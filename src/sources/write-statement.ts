import { castJson, cellJson, currentCell, differs } from './cell.ts'
import { blankValue, isBlank, isReachable } from './blank.ts'
import { render } from './expression.ts'
import { eligible, inputHash, joins } from './inputs.ts'
import { composeJson, parentsOf } from './json-cells.ts'
import { keyMatches, keyOrder } from './key.ts'
import type { Cell, Output, Source, Touch } from './mapped.ts'
import { quoteLiteral, quoteName } from './quote.ts'

/** One row of the statement's `$1`, a JSON array of them. */
export interface BatchRow {
  /** Its place in the batch. */
  readonly i: number
  readonly key: string
  readonly hash: string
  /** Output column to value. */
  readonly v: Readonly<Record<string, unknown>>
  /** Output column to what Fillrate wrote last. */
  readonly w: Readonly<Record<string, unknown>>
  /** The record's confidence. */
  readonly c: number | null
}

/** What the statement tells of one row. */
export interface Told {
  readonly i: number
  readonly found: boolean
  /** Rows that the joins gave for it. */
  readonly copies: number | null
  readonly same: boolean | null
  readonly changes: boolean | null
  readonly written: boolean
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  readonly kept: readonly string[] | null
  readonly skipped: ReadonlyArray<{ readonly column: string; readonly reason: string }> | null
}

/**
 * The statement that writes a batch: one parameter in, one jsonb array of `Told` out.
 *
 * 1. `~locked` locks the rows, in key order so that two batches can't deadlock, and reads them as they are once
 *    locked: after a wait that is what the other transaction committed. NO KEY, so that rows that refer to them
 *    can still be inserted meanwhile.
 * 2. `~judged` builds everything on the locked versions: the joins, the hash of the inputs, the policies, the new
 *    values. The names `t` and those of the joins mean what they mean in the configuration; all others begin with
 *    a tilde, so that no table of the user's can be mistaken for one of them.
 * 3. `~written` updates the rows in which something changes, and no others.
 *
 * @param rehearse leaves out the third step: `after` then tells what would be written, before any trigger
 */
export function writeStatement(source: Source, options: { readonly rehearse?: boolean } = {}): string {
  const cells = source.outputs.map((output, n) => ({ output, n }))
  const judged = judgedRows(source, cells)
  const nothingToSet = cells.length === 0
  return `
    with "~batch" as (
      select * from jsonb_to_recordset($1::jsonb)
        as b(i int, key text, hash text, v jsonb, w jsonb, c double precision)
    ), "~locked" as materialized (
      select "~b".i as "~i", ${readable(source)
        .map((name) => `t.${quoteName(name)}`)
        .join(', ')}
        from "~batch" as "~b" join ${source.table.sql} as t on ${keyMatches(source, '"~b".key')}
       order by ${keyOrder(source)}
       ${options.rehearse ? '' : 'for no key update of t'}
    ), "~judged" as materialized (${judged}
    ), "~written" as (${nothingToSet || options.rehearse ? rehearsal(source, cells) : update(source, cells)}
    )
    select coalesce(jsonb_agg(jsonb_build_object(
             'i', "~b".i, 'found', j."~i" is not null, 'copies', j."~copies", 'same', j."~same",
             'changes', j."~changes", 'written', w."~i" is not null,
             'before', case when w."~i" is not null then j."~before" end, 'after', w."~after",
             'kept', j."~kept", 'skipped', j."~skipped") order by "~b".i), '[]') as told
      from "~batch" as "~b"
      left join (select distinct on ("~i") * from "~judged" order by "~i") as j on j."~i" = "~b".i
      left join "~written" as w on w."~i" = "~b".i`
}

interface Numbered {
  readonly output: Output
  readonly n: number
}

function judgedRows(source: Source, cells: readonly Numbered[]): string {
  const columns = readable(source).map((name) => `"~l".${quoteName(name)}`)
  const touches = source.touches.map((touch, n) => `${touchValue(touch)} as s${n}`)
  const lines = [
    `select "~l"."~i", count(*) over (partition by "~l"."~i") as "~copies", "~p".same as "~same"`,
    ...source.keyColumns.map((column, n) => `, t.${quoteName(column.name)} as "~k${n}"`),
    ...cells.map(({ n }) => `, "~n".n${n}, "~w".w${n}`),
    ...touches.map((_, n) => `, "~s".s${n}`),
    ...composedColumns(source, cells).map(
      ({ written, sql }, n) => `, ${written} as mw${n}, case when ${written} then ${sql} end as m${n}`,
    ),
    `, "~any".changes as "~changes", ${before(source, cells)} as "~before"`,
    `, ${kept(cells)} as "~kept", ${skipped(cells)} as "~skipped"`,
    `from "~locked" as "~l" join "~batch" as "~b" on "~b".i = "~l"."~i"`,
    `cross join lateral (select ${columns.join(', ')}) as t`,
    joins(source),
    // Each step is fenced by OFFSET 0: flattened into the next one, an expression would run once for each mention.
    `cross join lateral (select "~b".hash = ${inputHash(source)} as same ${cells.map(given).join('')} offset 0) as "~p"`,
    `cross join lateral (select ${list(cells.map(({ n }) => `"~p".given${n} and "~p".open${n} as ready${n}`))}) as "~r"`,
    `cross join lateral (select ${list(cells.map((cell) => `${made(cell, cells)} as e${cell.n}`))} offset 0) as "~e"`,
    `cross join lateral (select ${list(cells.map((cell) => `${fitted(cell)} as n${cell.n}`))} offset 0) as "~n"`,
    `cross join lateral (select ${list(cells.map((cell) => `${change(cell, cells)} as w${cell.n}`))} offset 0) as "~w"`,
    `cross join lateral (select ${[...cells.map(({ n }) => `"~w".w${n}`), 'false'].join(' or ')} as changes offset 0) as "~any"`,
    `cross join lateral (select ${list(touches)} offset 0) as "~s"`,
    `where "~l"."~i" is not null and ${eligible(source)}`,
  ]
  return lines.map((line) => `\n      ${line}`).join('')
}

const list = (items: readonly string[]): string => (items.length > 0 ? items.join(', ') : 'null as nothing')

/** Whether the batch brings a value for the cell, and whether the policy opens the cell as it stands. */
function given({ output, n }: Numbered): string {
  const name = quoteLiteral(output.column)
  return (
    `, coalesce(jsonb_typeof("~b".v -> ${name}), 'null') <> 'null' as given${n}` +
    `, (${opened(output)} and ${isReachable(output)}) as open${n}`
  )
}

function opened(output: Output): string {
  switch (output.mapping.policy) {
    case 'always':
      return 'true'
    case 'blank':
      return isBlank(output)
    case 'tracked':
      return `(${isBlank(output)} or coalesce(${cellJson(output)} = ("~b".w -> ${quoteLiteral(output.column)}), false))`
  }
}

/** The new value. Made only where it may be used, because to make it may fail. */
function made({ output, n }: Numbered, cells: readonly Numbered[]): string {
  const group = members(output, cells)
  // A protected member of a group must be made as well: if it is what the cell holds already, the group is whole.
  const when = group.length > 1 ? group.map((one) => `"~p".given${one.n}`) : [`"~r".ready${n}`]
  return `case when "~p".same and ${when.join(' and ')} then ${newValue(output)} end`
}

function newValue(output: Output): string {
  const name = quoteLiteral(output.column)
  const { fit, mapping, type } = output
  if (mapping.sql === null) return castJson('"~b".v', name, type.cast, fit)
  const text = `("~b".v ->> ${name})`
  const { sql } = render(mapping.sql, {
    value: output.value === 'number' ? `${text}::numeric` : text,
    json: `("~b".v -> ${name})`,
    confidence: '"~b".c',
  })
  if (fit.kind === 'jsonb') return `to_jsonb((select (${sql}\n)))`
  if (fit.kind === 'json') return `to_json((select (${sql}\n)))`
  return `(${sql}\n)::${type.cast}`
}

/** A text too long for its column is left out or cut here, because an explicit cast would cut it without a word. */
function fitted({ output, n }: Numbered): string {
  const value = `"~e".e${n}`
  const { fit, mapping, type } = output
  const filled = mapping.sql === null ? value : `case when not ${blankValue(value, fit)} then ${value} end`
  if (fit.kind !== 'text' || fit.maxLength === null) return filled
  const cut = mapping.tooLong === 'truncate' ? `left(${value}::text, ${fit.maxLength})::${type.cast}` : 'null'
  return `case when char_length(${value}::text) > ${fit.maxLength} then ${cut} else ${filled} end`
}

/** Whether the cell is written. Of a group, all members must be ready, or hold already what they would be given. */
function change({ output, n }: Numbered, cells: readonly Numbered[]): string {
  const differing = ({ output, n }: Numbered): string =>
    differs(`"~n".n${n}`, currentCell(output), output.fit)
  const group = members(output, cells)
    .filter((one) => one.n !== n)
    .map((one) => `"~n".n${one.n} is not null and ("~r".ready${one.n} or not ${differing(one)})`)
  const whole = [`"~r".ready${n}`, `"~n".n${n} is not null`, ...group, differing({ output, n })]
  return `coalesce(${whole.join(' and ')}, false)`
}

const members = (output: Output, cells: readonly Numbered[]): readonly Numbered[] =>
  output.mapping.group === null
    ? []
    : cells.filter((other) => other.output.mapping.group === output.mapping.group)

function touchValue(touch: Touch): string {
  const { sql } = render(touch.expression, { confidence: '"~b".c' })
  const value = touch.path.length > 0 ? `to_jsonb((select (${sql}\n)))` : `(${sql}\n)`
  return `case when "~any".changes then ${value} end`
}

/** Each json column of which keys are written, with its new value as a whole. */
function composedColumns(
  source: Source,
  cells: readonly Numbered[],
): Array<{ readonly attribute: string; readonly written: string; readonly sql: string }> {
  const keys = [
    ...cells.map(({ output, n }) => ({ cell: output as Cell, written: `"~w".w${n}`, value: `"~n".n${n}` })),
    ...source.touches.map((touch, n) => ({
      cell: touch as Cell,
      written: `("~any".changes and ${isReachable(touch)})`,
      value: `coalesce("~s".s${n}, 'null')`,
    })),
  ].filter(({ cell }) => cell.path.length > 0)
  return [...Map.groupBy(keys, ({ cell }) => cell.attribute)].map(([attribute, inColumn]) => ({
    attribute,
    written: inColumn.map((key) => key.written).join(' or '),
    sql: composeJson(inColumn),
  }))
}

/**
 * What the written cells held, touched columns among them. A column that held nothing, or a key that was not there,
 * has no entry: JSON null is something else.
 */
function before(source: Source, cells: readonly Numbered[]): string {
  const written = [
    ...cells.map(({ output, n }) => ({ cell: output as Cell, when: `"~w".w${n}` })),
    ...source.touches.map((touch) => ({ cell: touch as Cell, when: '"~any".changes' })),
  ]
  const parts = written.flatMap(({ cell, when }) => [
    entry(`${when} and ${cellJson(cell)} is not null`, cell.column, cellJson(cell)),
    ...parentsOf(cell).map(({ name, value }) => entry(`${when} and ${value} in ('{}', 'null')`, name, value)),
  ])
  return parts.length > 0 ? parts.join(' || ') : `'{}'::jsonb`
}

const entry = (when: string, name: string, value: string): string =>
  `case when ${when} then jsonb_build_object(${quoteLiteral(name)}, ${value}) else '{}' end`

function kept(cells: readonly Numbered[]): string {
  const names = cells.map(
    ({ output, n }) =>
      `case when "~p".given${n} and not "~p".open${n} then ${quoteLiteral(output.column)} end`,
  )
  return `to_jsonb(array_remove(array[${names.join(', ')}]::text[], null))`
}

/** Cells for which the output's own `sql` gave nothing, or a text that is too long. */
function skipped(cells: readonly Numbered[]): string {
  const parts = cells
    .filter(({ output }) => output.mapping.sql !== null || output.fit.kind === 'text')
    .map(({ output, n }) => {
      const reason = `case when "~e".e${n} is null or ${blankValue(`"~e".e${n}`, output.fit)} then 'no_value' else 'too_long' end`
      const item = `jsonb_build_object('column', ${quoteLiteral(output.column)}, 'reason', ${reason})`
      return `case when "~p".same and "~r".ready${n} and "~n".n${n} is null then jsonb_build_array(${item}) else '[]' end`
    })
  return parts.length > 0 ? parts.join(' || ') : `'[]'::jsonb`
}

function update(source: Source, cells: readonly Numbered[]): string {
  const plain = cells
    .filter(({ output }) => output.path.length === 0)
    .map(({ output, n }) => assignment(output.attribute, `j.w${n}`, declared(output, `j.n${n}`)))
  const composed = composedColumns(source, cells).map(({ attribute }, n) =>
    assignment(attribute, `j.mw${n}`, `j.m${n}`),
  )
  const touched = source.touches.flatMap((touch, n) =>
    touch.path.length === 0 ? [`${quoteName(touch.attribute)} = j.s${n}`] : [],
  )
  const matches = source.keyColumns.map((column, n) => `t.${quoteName(column.name)} = j."~k${n}"`)
  return `
      update ${source.table.sql} as t set ${[...plain, ...composed, ...touched].join(', ')}
        from "~judged" as j
       where ${matches.join(' and ')} and j."~same" and j."~copies" = 1 and j."~changes"
      returning j."~i", ${after(source, cells, (cell) => coalesced(cellJson(cell)))} as "~after"`
}

const coalesced = (json: string): string => `coalesce(${json}, 'null')`

const assignment = (attribute: string, when: string, value: string): string =>
  `${quoteName(attribute)} = case when ${when} then ${value} else t.${quoteName(attribute)} end`

/** A domain must be named, or the row's old value would be checked against it as well. */
const declared = (cell: Cell, value: string): string =>
  cell.type.isDomain ? `${value}::${cell.type.name}` : value

function rehearsal(source: Source, cells: readonly Numbered[]): string {
  const shown = (_: Cell, n: number, isTouch: boolean): string =>
    `coalesce(to_jsonb(j.${isTouch ? 's' : 'n'}${n}), 'null')`
  return `
      select j."~i", ${after(source, cells, shown)} as "~after"
        from "~judged" as j where j."~same" and j."~copies" = 1 and j."~changes"`
}

function after(
  source: Source,
  cells: readonly Numbered[],
  value: (cell: Cell, n: number, isTouch: boolean) => string,
): string {
  const parts = [
    ...cells.map(({ output, n }) => entry(`j.w${n}`, output.column, value(output, n, false))),
    ...source.touches.map(
      (touch, n) => `jsonb_build_object(${quoteLiteral(touch.column)}, ${value(touch, n, true)})`,
    ),
  ]
  return parts.length > 0 ? parts.join(' || ') : `'{}'::jsonb`
}

/** Columns that this role may read, by name: a role need not be granted all of them. */
const readable = (source: Source): string[] =>
  source.table.columns.filter((column) => column.canSelect).map((column) => column.name)
