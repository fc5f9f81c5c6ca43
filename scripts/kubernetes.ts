import { spawnSync } from 'node:child_process'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const CHART = 'deploy/helm/fillrate'
/** Kustomize generates it from fillrate.config.ts, under a name that changes with its content. */
const VALUES = ['--set', 'existingConfigMap=fillrate-config']

/** @throws Error where Helm is missing or rejects the values. */
export function helm(...args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync('helm', args, { cwd: ROOT, encoding: 'utf8' })
  if (status !== 0) throw error ?? new Error(`helm ${args.join(' ')}\n${stderr}${stdout}`)
  return stdout
}

/** The files of deploy/kubernetes that the chart renders: the defaults, and the nightly run in place of a schedule. */
export function renderKubernetes(): Readonly<Record<string, string>> {
  const render = (...args: readonly string[]): string =>
    `# Generated from ${CHART} by \`npm run kubernetes\`.\n` +
    helm('template', 'fillrate', CHART, ...VALUES, ...args)
      .replaceAll(/^ *app\.kubernetes\.io\/managed-by: Helm\n/gm, '')
      .replaceAll(/ +$/gm, '')
  return {
    'fillrate.yaml': render(),
    'cronjob.yaml': render('--set', 'cronJob.enabled=true', '--show-only', 'templates/cronjob.yaml'),
  }
}

// Writes them, and the alert rules into the chart: npm run kubernetes. A test compares them.
if (import.meta.main) {
  copyFileSync(join(ROOT, 'deploy/prometheus/alerts.yml'), join(ROOT, CHART, 'alerts.yml'))
  for (const [name, text] of Object.entries(renderKubernetes()))
    writeFileSync(join(ROOT, 'deploy/kubernetes', name), text)
}
