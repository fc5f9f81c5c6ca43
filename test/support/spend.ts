import type { SpendReport } from '../../src/domain/report/status.ts'
import { sumSpend } from '../../src/domain/spend.ts'

/** Nothing was spent yet. */
export const noSpend: SpendReport = {
  today: sumSpend([], null),
  last_30_days: sumSpend([], null),
  budgets: [],
}
