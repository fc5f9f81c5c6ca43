import { isNothing, NOTHING, WORTH, type Chosen } from './chosen.ts'
import type { Draft } from './draft.ts'
import { sampleOf, type MeasuredRow } from './measure.ts'

/** The site, and the domain of an address where that one is missing in enough rows. Pure. */
export function settleCompany(draft: Draft, rows: readonly MeasuredRow[]): Chosen {
  const { inputs, spare, base, picks } = draft
  const fields = new Set([picks.get('domain'), picks.get('email')].filter((field) => field !== undefined))
  const chosen = (domain: string | undefined, read: (row: MeasuredRow) => string | null): Chosen => ({
    inputs: domain === undefined ? {} : { domain },
    fields,
    joins: base.joins,
    read: (row) => ({ ...NOTHING, domain: read(row) }),
  })
  const site = chosen(inputs.domain, (row) => row.domain)
  if (spare.mail === undefined) return site
  if (inputs.domain === undefined) return chosen(spare.mail, (row) => row.mail)
  const both = chosen(`coalesce(nullif(btrim(${inputs.domain}), ''), ${spare.mail})`, (row) =>
    isNothing(row.domain) ? row.mail : row.domain,
  )
  const asked = (one: Chosen): number => sampleOf('company', rows, one.read).askedBy['domain'] ?? 0
  return asked(both) - asked(site) > rows.length * WORTH ? both : site
}
