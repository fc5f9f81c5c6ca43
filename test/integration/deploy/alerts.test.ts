import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { TROUBLE_CODES } from '../../../src/domain/trouble.ts'
import { evaluateRules, isPromtoolMissing, RULES_FILE } from '../../support/promtool.ts'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
}
const CASES_FILE = 'test/integration/deploy/alerts.test.yml'
const { groups } = parse(readFileSync(RULES_FILE, 'utf8')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const noPromtool = isPromtoolMissing()

const OF_TROUBLES = /^max(?: by \([\w, ]+\) )?\(fillrate_trouble\{code=~?"([\w|]+)"\}\) == 1$/

/** The troubles that an alert is for: it fires while one of them holds. */
const codesOf = ({ expr }: Rule): string[] => OF_TROUBLES.exec(expr)?.[1]?.split('|') ?? []
const troubleAlerts = rules.flatMap((rule) => codesOf(rule).map((code) => [rule.alert, code, rule] as const))

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
    for (const { alert } of rules.filter((rule) => codesOf(rule).length === 0)) {
      const own = cases.filter((one) => one.alertname === alert)
      expect({ alert, fires: new Set(own.map((one) => one.exp_alerts !== undefined)) }).toEqual({
        alert,
        fires: new Set([true, false]),
      })
    }
  },
)

test('each trouble has an alert', () => {
  // Without its database a process exports no trouble: DatabaseAway. LiveSyncBehind reads the backlog itself.
  const others = new Set(['database_away', 'live_sync_behind'])
  const alerted = new Set(troubleAlerts.map(([, code]) => code))
  expect(TROUBLE_CODES.filter((code) => !alerted.has(code) && !others.has(code))).toEqual([])
})

test.skipIf(noPromtool).each(troubleAlerts)(
  '%s fires while %s lasts, and ends with it',
  (alert, code, rule) => {
    const waits = Number.parseInt(rule.for ?? '0', 10)
    const series = ['a', 'b'].flatMap((instance) => {
      const labels = `instance="${instance}",code="${code}",severity="error"`
      return [
        [`fillrate_trouble{${labels},subject=""}`, '0x200'],
        [`fillrate_trouble{${labels},subject="it"}`, `_x10 1x${waits + 20} _x60`],
      ]
    })
    const isFiring = (minute: number, firing: boolean) => ({
      expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) or vector(0)`,
      eval_time: `${minute}m`,
      exp_samples: [{ labels: '{}', value: firing ? 1 : 0 }],
    })
    const expected = [
      isFiring(8, false),
      ...(waits > 0 ? [isFiring(10, false)] : []),
      isFiring(12 + waits, true),
      isFiring(45 + waits, false),
    ]
    expect(evaluateRules(Object.fromEntries(series), { promql_expr_test: expected })).toContain('SUCCESS')
  },
)
