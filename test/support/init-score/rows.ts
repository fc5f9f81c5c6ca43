import type pg from 'pg'
import type { InputName } from '../../../src/domain/mapping.ts'
import { normalizeDomain } from '../../../src/domain/identifiers/domain.ts'
import { normalizeEmail } from '../../../src/domain/identifiers/email.ts'
import { normalizeProfileUrl } from '../../../src/domain/identifiers/profile-url.ts'
import type { ExpectedSource } from './expectation.ts'

/** A row of an expected source: what identifies it, and whether it may be enriched. */
export interface ExpectedRow {
  /** Names of the conditions that leave the row out. */
  readonly excludedBy: readonly string[]
  readonly mayExclude: boolean
  /** Canonical values by input, the expected one first; null if blank or invalid. */
  readonly inputs: Readonly<Partial<Record<InputName, ReadonlyArray<string | null>>>>
}

/** Equal for all spellings of one input; null for text that identifies nothing. */
export function canonicalInput(input: InputName, raw: string | null): string | null {
  if (raw === null) return null
  if (input === 'name' || input === 'company') return raw.trim().replaceAll(/\s+/g, ' ').toLowerCase() || null
  const normalize = { email: normalizeEmail, linkedin_url: normalizeProfileUrl, domain: normalizeDomain }
  const normalized = normalize[input](raw)
  return normalized?.ok === true ? normalized.key : null
}

/** The rows of a source as it is expected, by `id`, an expression that identifies a row. */
export async function readExpectedRows(
  pool: pg.Pool,
  source: ExpectedSource,
  id = 't.ctid',
): Promise<Map<string, ExpectedRow>> {
  const names = [...new Set([...Object.keys(source.inputs), ...Object.keys(source.alternatives ?? {})])]
  const inputs = (names as InputName[]).map((input) => {
    const expected = source.inputs[input]
    return {
      input,
      expressions: [
        ...(expected === undefined ? ['null'] : [expected]),
        ...(source.alternatives?.[input] ?? []),
      ],
    }
  })
  const texts = inputs.map(
    ({ expressions }) => `array[${expressions.map((one) => `(${one})::text`).join(', ')}]`,
  )
  const conditions = Object.values(source.excluded).map((one) => `(${one}) is true`)
  const { rows } = await pool.query<{
    id: string
    inputs: Array<Array<string | null>>
    excluded: boolean[]
    may: boolean
  }>(
    `select (${id})::text as id, json_build_array(${texts.join(', ')}) as inputs,
            array[${conditions.join(', ')}]::boolean[] as excluded, (${source.mayExclude ?? 'false'}) is true as may
       from ${source.table} t ${source.joins ?? ''}`,
  )
  const reasons = Object.keys(source.excluded)
  return new Map(
    rows.map((row) => [
      row.id,
      {
        excludedBy: reasons.filter((_, n) => row.excluded[n]),
        mayExclude: row.may,
        inputs: Object.fromEntries(
          inputs.map(({ input }, n) => [
            input,
            (row.inputs[n] ?? []).map((value) => canonicalInput(input, value)),
          ]),
        ),
      },
    ]),
  )
}
