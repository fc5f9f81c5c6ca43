import type { Config } from '../../config/config.ts'
import { diffForms, toDescriptionForm, type StoredForm } from '../../domain/service/description-form.ts'
import type { Database } from '../../store/open.ts'
import { listRemapped } from '../../store/runs.ts'
import * as services from '../../store/services.ts'
import { inTransaction } from '../../store/transaction.ts'
import { pluralize } from '../../util/format.ts'
import { QUERY_CANCELED, sqlStateOf } from '../../util/sqlstates.ts'
import { listNames } from '../../util/text.ts'
import { createFinding, type Finding } from './finding.ts'

/** Counting reads every lookup. */
const COUNT_MS = 10_000

/**
 * Says that stored records are of an earlier form of the service's description: they were read by it, and cost what it said.
 * Null: there are none, or all that differs has been written again by `remap`.
 */
export async function checkDescription(
  db: Database,
  { id, host }: { readonly id: number; readonly host: string },
  { adapter, sources }: Pick<Config, 'adapter' | 'sources'>,
): Promise<Finding | null> {
  const forms = await services.listForms(db, id)
  const now = toDescriptionForm(adapter)
  const last = forms.at(-1)
  if (last === undefined || (forms.length === 1 && diffForms(last.parts, now).length === 0)) return null
  const older = await countOlder(db, id, forms, (form) => diffForms(form.parts, now))
  if (older === null || older.records === 0 || older.changed.length === 0) return null
  const { records, changed } = older
  const isUsed = diffForms(last.parts, now).length === 0
  const remapped = isUsed ? await listRemapped(db, Object.keys(sources), last.since) : []
  const open = Object.keys(sources).filter((name) => !remapped.includes(name))
  const isOfFields = changed.every((place) => place.startsWith('fields.'))
  if (isOfFields && open.length === 0) return null
  const stored = records === 'unknown' ? 'stored records' : pluralize(records, 'stored record')
  return createFinding(
    'stored records',
    'warning',
    `${stored} of ${host} ${records === 1 ? 'is' : 'are'} of an earlier form of the description: ${listNames(changed)} ${changed.length === 1 ? 'differs' : 'differ'}`,
    { todo: [...remapAdvice(open, isOfFields), ...requestAdvice(changed, id, older.before)].join('\n') },
  )
}

const remapAdvice = (open: readonly string[], isOfFields: boolean): string[] =>
  open.length === 0
    ? []
    : [
        `${open.map((name) => `\`fillrate remap ${name}\``).join(', ')} ${open.length === 1 ? 'writes' : 'write'} them again by the new one, without a call${isOfFields ? '' : ', as far as they hold what it needs'}.`,
      ]

/** What an answer was read as, and what it cost, is stored; the answer is not. */
function requestAdvice(changed: readonly string[], id: number, before: string | null): string[] {
  const places = changed.filter((place) => !place.startsWith('fields.') && place !== 'credits')
  const cost = changed.includes('credits') ? ['What they cost stays as it was counted.'] : []
  if (places.length === 0) return cost
  const until = before === null ? '' : ` and resolved_at < '${before}'`
  return [
    `What ${listNames(places)} made of the answers stays until they are requested again, and billed again: when they are due, or in the next run after`,
    `with old as (update fillrate.lookups set refresh_at = now() where service_id = ${id} and state = 'found'${until} returning id)`,
    `update fillrate.rows r set due_at = now() from old where r.lookup_id = old.id and r.state <> 'waiting';`,
    ...cost,
  ]
}

interface OlderRecords {
  readonly records: number | 'unknown'
  readonly changed: readonly string[]
  /** When the form of now began, if it has begun. */
  readonly before: string | null
}

/** Null: none. What differs of a form that is not kept any more is not known. */
async function countOlder(
  db: Database,
  id: number,
  forms: readonly StoredForm[],
  diff: (form: StoredForm) => string[],
): Promise<OlderRecords | null> {
  const last = forms.at(-1)
  const before = last !== undefined && diff(last).length === 0 ? last.since : null
  try {
    const counted = await inTransaction(db, (tx) => services.countRecordsByForm(tx, id, forms), COUNT_MS)
    const older = counted.flatMap(({ forms: begun, records }) => {
      const form = forms[begun - 1] ?? forms[0]
      const changed = form === undefined ? [] : diff(form)
      return changed.length === 0 ? [] : [{ records, changed }]
    })
    if (older.length === 0) return null
    return {
      records: older.reduce((sum, one) => sum + one.records, 0),
      changed: [...new Set(older.flatMap((one) => one.changed))],
      before,
    }
  } catch (error) {
    if (sqlStateOf(error) !== QUERY_CANCELED) throw error
    return { records: 'unknown', changed: [...new Set(forms.flatMap(diff))], before }
  }
}
