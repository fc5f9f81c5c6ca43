import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { CONDITION_KINDS } from '../../../src/domain/condition.ts'
import { evaluateRules, isPromtoolMissing, RULES_FILE } from '../../support/promtool.ts'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly annotations: { readonly runbook_url: string }
}
const CASES_FILE = 'test/integration/deploy/alerts.test.yml'
const { groups } = parse(readFileSync(RULES_FILE, 'utf8')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const noPromtool = isPromtoolMissing()

/** The rules that fire while a condition of a severity holds. */
const OF_CONDITIONS = { FillrateError: 'error', FillrateWarning: 'warning' }

test.skipIf(noPromtool)(
  'each rule is valid, has a case in which it fires, and one in which it does not',
  () => {
    expect(spawnSync('promtool', ['check', 'rules', RULES_FILE]).status).toBe(0)
    expect(spawnSync('promtool', ['test', 'rules', CASES_FILE], { encoding: 'utf8' })).toMatchObject({
      status: 0,
    })
    const cases = (
      parse(readFileSync(CASES_FILE, 'utf8')) as {
        tests: { alert_rule_test: { alertname: string; exp_alerts?: unknown[] }[] }[]
      }
    ).tests.flatMap((one) => one.alert_rule_test)
    for (const { alert } of rules.filter((rule) => !(rule.alert in OF_CONDITIONS))) {
      const own = cases.filter((one) => one.alertname === alert)
      expect({ alert, fires: new Set(own.map((one) => one.exp_alerts !== undefined)) }).toEqual({
        alert,
        fires: new Set([true, false]),
      })
    }
  },
)

test
  .skipIf(noPromtool)
  .each(
    Object.entries(OF_CONDITIONS).flatMap(([alert, severity]) =>
      CONDITION_KINDS.filter((kind) => kind !== 'database_away').map(
        (kind) => [alert, kind, severity] as const,
      ),
    ),
  )(
  '%s fires while %s holds at one of two services, names that one, and ends with it',
  (alert, kind, severity) => {
    const waits = Number.parseInt(rules.find((rule) => rule.alert === alert)?.for ?? '0', 10)
    const series = ['a', 'b'].flatMap((instance) => {
      const labels = `instance="${instance}",kind="${kind}",source="",severity="${severity}"`
      return [
        [`fillrate_condition{${labels},service=""}`, '0x200'],
        [`fillrate_condition{${labels},service="pdl"}`, `_x10 1x${waits + 20} _x60`],
      ]
    })
    const firing = (minute: number, isFiring: boolean) => ({
      expr: `count by (kind, service) (ALERTS{alertname="${alert}",alertstate="firing"})`,
      eval_time: `${minute}m`,
      exp_samples: isFiring ? [{ labels: `{kind="${kind}",service="pdl"}`, value: 1 }] : [],
    })
    const expected = [
      firing(8, false),
      firing(10, false),
      firing(12 + waits, true),
      firing(45 + waits, false),
    ]
    expect(evaluateRules(Object.fromEntries(series), { promql_expr_test: expected })).toContain('SUCCESS')
  },
)

test('each alert leads to a heading of docs/operations.md', () => {
  const headings = [...readFileSync('docs/operations.md', 'utf8').matchAll(/^#+ (.+)$/gm)].map(
    ([, title = '']) => title.toLowerCase().replaceAll(' ', '-'),
  )
  for (const { annotations } of rules) {
    const [file, anchor = ''] = annotations.runbook_url.split('#')
    expect(file).toBe('docs/operations.md')
    for (const kind of anchor.includes('$labels.kind') ? CONDITION_KINDS : [anchor])
      expect(headings).toContain(kind)
  }
})

test('what silences an alert is about the same service or source, unless nothing works', () => {
  const { inhibit_rules: silences } = parse(readFileSync('deploy/prometheus/alertmanager.yml', 'utf8')) as {
    inhibit_rules: { source_matchers: string[]; equal?: string[] }[]
  }
  const joined = silences.filter(({ equal }) => equal !== undefined)
  expect(joined.map(({ equal }) => equal)).toEqual([['service'], ['service'], ['source']])
})
