import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** The shipped alerts. */
export const RULES_FILE = resolve('deploy/prometheus/alerts.yml')

/** Whether promtool is missing, which skips the tests that need it. */
export function isPromtoolMissing(): boolean {
  const missing = spawnSync('promtool', ['--version']).status !== 0
  if (missing) console.log('promtool is missing: skipping its tests')
  return missing
}

/**
 * Evaluates the shipped alerts over series of one sample a minute.
 * @param tests `alert_rule_test` or `promql_expr_test`, as promtool reads them
 * @returns promtool's output; it contains SUCCESS if all is as expected
 */
export function evaluateRules(
  series: Readonly<Record<string, string>>,
  tests: object,
  evaluationInterval = '1m',
): string {
  const folder = mkdtempSync(join(tmpdir(), 'fillrate-rules-'))
  const file = join(folder, 'test.json')
  const inputs = Object.entries(series).map(([name, values]) => ({ series: name, values }))
  const group = { interval: '1m', input_series: inputs, ...tests }
  writeFileSync(
    file,
    JSON.stringify({ rule_files: [RULES_FILE], evaluation_interval: evaluationInterval, tests: [group] }),
  )
  const { stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' })
  rmSync(folder, { recursive: true })
  return `${stdout}${stderr}`
}
