import type { Plan } from '../../pipeline/plan.ts'
import type { Story } from './story.ts'
import type { DemoSettings } from './settings.ts'
import type { World } from './world.ts'

/** The demo as one object, for programs. */
export function demoJson(
  world: World,
  size: DemoSettings,
  told: { readonly plan: Plan; readonly story: Story },
  durationMs: number,
): object {
  const { filled, run, status, deliveries, service, typedValues, examples } = told.story
  const { settings } = world.service
  return {
    status: run.status,
    crm: { accounts: size.accounts, contacts: size.contacts, made_now: world.crmIsNew },
    plan: told.plan,
    run,
    fill_rate: Object.fromEntries(
      filled.map(({ source, before, after }) => [
        source,
        {
          eligible: after.eligible,
          columns: Object.fromEntries(
            after.columns.map(({ column, filled: now }, n) => [
              column,
              { before: before.columns[n]?.filled ?? 0, after: now },
            ]),
          ),
        },
      ]),
    ),
    rows: status.rows,
    deliveries: { taken: deliveries, states: status.deliveries },
    service: {
      limit: settings.limit,
      window_ms: settings.windowMs,
      faults: settings.faults,
      counts: { ...service, windows: service.windows.length },
    },
    typed_values: typedValues,
    examples,
    duration_ms: Math.round(durationMs),
  }
}
