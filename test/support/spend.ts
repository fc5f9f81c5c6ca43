import type { SpendReport } from '../../src/actions/spend.ts'
import { sumSpend } from '../../src/domain/spend.ts'

/** Nothing was spent yet. */
export const noSpend: SpendReport = {
  today: sumSpend([], null),
  last_30_days: sumSpend([], null),
  days: [],
  sources: [],
  runs: [],
  budgets: [],
  forecast: { today: { lookups: 0, cost: null }, next_30_days: { lookups: 0, cost: null } },
}
