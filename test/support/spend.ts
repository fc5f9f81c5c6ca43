import type { SpendSettings } from '../../src/actions/spend.ts'
import type { SpendReport } from '../../src/domain/report/status.ts'
import { sumSpend } from '../../src/domain/spend.ts'

/** Nothing was spent yet. */
export const noSpend: SpendReport = {
  today: sumSpend([], null),
  last_30_days: sumSpend([], null),
  budgets: [],
}

/** A configuration without a service, a source or a budget. */
export const noSpendSettings: SpendSettings = {
  services: [],
  liveSync: { budget: null },
  sources: {},
  schedule: [],
}
