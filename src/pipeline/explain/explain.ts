import { ConfigProblems } from '../../config/problems.ts'
import { quote } from '../../config/show.ts'
import { chooseLookup } from '../../domain/identifiers/choose.ts'
import { Row, UNDONE } from '../../domain/row.ts'
import { keyInWords, lookAt, lookIn, NotAKey, type LookedIn } from '../../sources/look.ts'
import { isRefusal, refusalInWords } from '../../sources/refused.ts'
import type { Source } from '../../sources/source.ts'
import * as runs from '../../store/runs.ts'
import * as store from '../../store/story.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import { readKeys } from '../pick/candidates.ts'
import { suppressedRows } from '../pick/suppressed.ts'
import { changeOf, columnsOf, fieldsOf, mappedInputs } from './cells.ts'
import { nextOf, type Situation } from './next.ts'
import type { AskedLookup, State, Story } from './story.ts'

type ExplainDeps = Pick<Deps, 'db' | 'rules' | 'service' | 'now'>

/**
 * Tells one row's story. Reads only.
 * @param typed the key, as a person writes it
 * @throws ConfigProblems when the text can't be a key, or when no row has it and none ever had
 */
export async function explain(deps: ExplainDeps, source: Source, typed: string): Promise<Story> {
  const { db } = deps
  const now = await look(deps, source, typed)
  const { key } = now
  const row = await store.ofRow(db, source.name, key)
  const changes = await store.ofChanges(db, source.name, key)
  if (!now.exists && row === null && changes.length === 0) throw noRow(source, key)

  const inside = now.exists ? await lookInside(deps, source, key) : NOWHERE
  const choice = inside.inputs === null ? null : chooseLookup(source.mapping.kind, inside.inputs)
  const [lookup = null] = await store.ofLookups(db, row?.lookup == null ? [] : [row.lookup])
  const job = lookup?.job == null ? null : await store.ofJob(db, lookup.job)
  const run = row?.run == null ? null : await runs.find(db, row.run)
  const inputsChanged = inside.inputHash !== null && row !== null && row.input_hash !== inside.inputHash
  const asked = choice?.lookup ?? null
  const next = nextOf(
    {
      outside: now.exists ? outsideOf(inside) : 'deleted',
      lacks: inside.lacks,
      question: asked?.kind ?? null,
      suppressed: inside.inputs !== null && (await suppressedRows(db, source, [inside.inputs])).size > 0,
      inputsChanged,
      settledByAnother:
        row !== null && row.service !== deps.service && (lookup !== null || row.tried.length > 0),
      undone: row?.state === Row.unchanged && UNDONE in (row.notes ?? {}),
      row,
      lookup,
      job,
      alive: run?.alive ?? false,
    },
    deps.now(),
  )
  return {
    source: source.name,
    key,
    table: `${source.table.schema}.${source.table.name}`,
    row: {
      exists: now.exists,
      excluded_by: inside.leftOutBy,
      join_count: inside.copies,
      problem: inside.problem,
      inputs: mappedInputs(source, inside.inputs),
      lookup_request: asked === null ? null : { kind: asked.kind, input: { ...asked.input } },
      input_notes: choice?.notes ?? [],
      columns: columnsOf(source, now, row?.written ?? null, changes),
    },
    state: row === null ? null : stateOf(row, { alive: run?.alive ?? false, inputs_changed: inputsChanged }),
    lookup: lookup === null ? null : withoutRecord(lookup),
    missed_lookups: (await store.ofLookups(db, row?.tried ?? [])).map(withoutRecord),
    job,
    deliveries: job === null ? [] : await store.ofDeliveries(db, job),
    record: lookup?.record ?? null,
    fields: lookup === null ? [] : fieldsOf(source, lookup),
    changes: changes.map((change) => changeOf(source, change)),
    next,
  }
}

function stateOf(row: store.RowStory, more: Pick<State, 'alive' | 'inputs_changed'>): State {
  const { state, reason, notes, run, picked_at, settled_at, due_at } = row
  return { state, reason, notes, run, ...more, picked_at, settled_at, due_at }
}

function withoutRecord(lookup: store.LookupStory): AskedLookup {
  const { record: _, ...rest } = lookup
  return rest
}

async function look(deps: ExplainDeps, source: Source, typed: string): ReturnType<typeof lookAt> {
  try {
    return await inTransaction(deps.db, (tx) => lookAt(tx, source, typed), deps.rules.sourceTimeoutMs)
  } catch (error) {
    throw error instanceof NotAKey ? noKey(source, typed, error) : error
  }
}

interface Inside extends LookedIn {
  readonly lacks: boolean
  /** The error of an expression that fails on this row. */
  readonly problem: string | null
}

const NOWHERE: Inside = {
  leftOutBy: null,
  copies: 0,
  inputs: null,
  inputHash: null,
  problem: null,
  lacks: false,
}

async function lookInside({ db, rules, service }: ExplainDeps, source: Source, key: string): Promise<Inside> {
  try {
    const inside = await inTransaction(db, (tx) => lookIn(tx, source, key), rules.sourceTimeoutMs)
    const found = { ...inside, problem: null, lacks: false }
    if (inside.leftOutBy !== null || inside.copies > 1) return found
    const [row] = await inTransaction(db, (tx) => readKeys(tx, source, [key], service), rules.sourceTimeoutMs)
    return { ...found, lacks: row?.lacks ?? false }
  } catch (error) {
    if (!isRefusal(error)) throw error
    return { ...NOWHERE, problem: refusalInWords(error) }
  }
}

function outsideOf({ leftOutBy, problem, copies }: Inside): Situation['outside'] {
  if (problem !== null) return 'problem'
  return leftOutBy ?? (copies > 1 ? 'copies' : null)
}

const noKey = (source: Source, typed: string, cause: NotAKey): ConfigProblems =>
  new ConfigProblems(
    'the command',
    [
      {
        place: 'KEY',
        found: quote(typed),
        expected: `a key of the source ${source.name}: ${cause.expected}`,
        todo: `It is what the key of ${source.mapping.table} holds; \`fillrate failures\` shows some.`,
      },
    ],
    { cause },
  )

const noRow = (source: Source, key: string): ConfigProblems =>
  new ConfigProblems('the command', [
    {
      place: 'KEY',
      found: `${quote(key)}, and ${source.mapping.table} has no such row`,
      expected: `a key of the source ${source.name}: ${keyInWords(source)}`,
      todo: 'Nothing is known of it from earlier runs either.',
    },
  ])
