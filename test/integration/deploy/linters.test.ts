import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { parseCommandLine } from '../../../src/cli/cli.ts'
import { startLoopback } from '../../support/loopback.ts'
import { isPromtoolMissing } from '../../support/promtool.ts'

// What the programs that read the files of deploy/ say of them. A program that is not installed is reported and left out.

const folder = mkdtempSync(join(tmpdir(), 'fillrate-linters-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const run = (command: string, ...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  return { status, output: `${stdout}${stderr}` }
}

/** Whether a program, which `args` start, is missing. */
function isMissing(program: string, ...args: readonly string[]): boolean {
  const missing = spawnSync(program, args).status !== 0
  if (missing) console.log(`${[program, ...args].join(' ')} fails: skipping its tests`)
  return missing
}
const noPromtool = isPromtoolMissing()
const noHelm = isMissing('helm', 'version')
const CHART = 'deploy/helm/fillrate'

/** @throws Error if Helm rejects the values. */
function helm(...args: readonly string[]): string {
  const { status, output } = run('helm', ...args)
  if (status !== 0) throw new Error(output)
  return output
}

interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly labels: Record<string, string> }
  readonly spec: Record<string, never>
}

/** What the chart renders: the defaults, and the nightly run in place of a schedule. */
function renderManifests(): Manifest[] {
  const render = (...args: readonly string[]): string =>
    helm('template', 'fillrate', CHART, '--set', 'existingConfigMap=fillrate-config', ...args)
  const rendered = [
    render(),
    render('--set', 'cronJob.enabled=true', '--show-only', 'templates/cronjob.yaml'),
  ]
  return rendered.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as Manifest))
}
const noSystemd = isMissing('systemd-analyze', '--version')
const noCompose = isMissing('docker', 'compose', 'version')

test.skipIf(noPromtool)('promtool accepts scrape.yml and the expressions of the Grafana dashboard', () => {
  const config = join(folder, 'prometheus.yml')
  const token = join(folder, 'token')
  writeFileSync(token, 'token')
  const scrape = readFileSync('deploy/prometheus/scrape.yml', 'utf8')
  writeFileSync(config, scrape.replace('/etc/prometheus/fillrate-token', token))
  expect(run('promtool', 'check', 'config', config)).toMatchObject({ status: 0 })
  const { panels } = JSON.parse(readFileSync('deploy/grafana/fillrate.json', 'utf8')) as {
    panels: { targets: { expr: string }[] }[]
  }
  const rules = panels
    .flatMap((panel) => panel.targets)
    .map(({ expr }, index) => ({
      record: `panel_${index}`,
      expr: expr.replaceAll('$__rate_interval', '5m'),
    }))
  const file = join(folder, 'panels.yml')
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }))
  expect(run('promtool', 'check', 'rules', file)).toMatchObject({ status: 0 })
})

test.skipIf(noHelm)('helm lints the chart', () => {
  expect(helm('lint', '--strict', CHART, '--set', 'existingConfigMap=config')).toContain('0 chart(s) failed')
})

test.skipIf(noHelm)(
  'helm refuses values that cannot work, and a changed configuration changes the pods',
  () => {
    const render = (...args: string[]): string => helm('template', 'crm', CHART, ...args)
    expect(() => render()).toThrow('The configuration is missing')
    for (const wrong of ['command=run', 'replicas=two', 'image.digest=latest', 'monitorin.enabled=true'])
      expect(() => render('--set', 'config=a', '--set', wrong)).toThrow(/schema/)
    const checksum = (config: string): string | undefined =>
      /checksum\/config: (\w{64})/.exec(render('--set', `config=${config}`))?.[1]
    expect(checksum('a')).toBeDefined()
    expect(checksum('a')).not.toBe(checksum('b'))
    const digest = `sha256:${'0'.repeat(64)}`
    expect(render('--set', 'config=a', '--set', `image.digest=${digest}`)).toContain(`fillrate@${digest}`)
  },
)

test.skipIf(noHelm)(
  'the chart renders manifests with existing probe paths, valid commands, hardened pods and one set of labels',
  () => {
    const all = renderManifests()
    expect(
      all
        .map((one) => one.kind)
        .toSorted()
        .join(' '),
    ).toBe(
      'CronJob Deployment Ingress Job NetworkPolicy PodDisruptionBudget PrometheusRule Service ServiceMonitor',
    )
    for (const { metadata } of all)
      expect(metadata.labels).toMatchObject({
        'app.kubernetes.io/name': 'fillrate',
        'app.kubernetes.io/instance': 'fillrate',
      })
    const rules = all.find((one) => one.kind === 'PrometheusRule')
    expect(rules?.spec).toEqual(parse(readFileSync('deploy/prometheus/alerts.yml', 'utf8')))
    const text = JSON.stringify(all)
    const commands = [...text.matchAll(/"args":(\[[^\]]*\])/g)].map(
      ([, args = '']) => JSON.parse(args) as string[],
    )
    for (const command of commands) parseCommandLine(command)
    expect(commands.map(([name]) => name).toSorted()).toEqual(['migrate', 'run', 'start'])
    expect([...text.matchAll(/"httpGet":\{"path":"([^"]+)"/g)].map(([, path]) => path)).toEqual([
      '/healthz',
      '/healthz',
      '/readyz',
    ])
    const hardening = [
      '"runAsNonRoot":true',
      '"automountServiceAccountToken":false',
      // With service links, a Service named `fillrate` would set FILLRATE_PORT to a URL.
      '"enableServiceLinks":false',
      '"readOnlyRootFilesystem":true',
      '"memory":"512Mi"',
    ]
    expect(hardening.filter((setting) => text.split(setting).length - 1 < commands.length)).toEqual([])
    // The role that migrates is in a secret of its own.
    expect([...text.matchAll(/"secretRef":\{"name":"([^"]+)"/g)].map(([, name]) => name).toSorted()).toEqual([
      'fillrate',
      'fillrate',
      'fillrate-migrate',
    ])
  },
)

test.skipIf(noHelm)('every field of the manifests exists, with its type', () => {
  const group = (apiVersion: string): string => apiVersion.replace(/^v1$/, 'core/v1').replace('.k8s.io', '')
  const lines = renderManifests()
    // The operator's types are not in the package.
    .filter(({ apiVersion }) => !apiVersion.startsWith('monitoring.coreos.com/'))
    .map((one, index) => {
      const types = resolve('node_modules/kubernetes-types', `${group(one.apiVersion)}.d.ts`)
      return `import type { ${one.kind} as T${index} } from '${types}'\nexport const v${index}: T${index} = ${JSON.stringify(one)}`
    })
  expect(lines).toHaveLength(7)
  const file = join(folder, 'manifests.ts')
  const compile = (text: string) => {
    writeFileSync(file, text)
    return run('node_modules/.bin/tsc', '--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', file)
  }
  expect(compile(lines.join('\n'))).toEqual({ status: 0, output: '' })
  expect(
    compile(lines.join('\n').replace('readOnlyRootFilesystem', 'readOnlyRootFileSystem')).status,
  ).not.toBe(0)
})

test.skipIf(noSystemd)('systemd-analyze accepts the units, and rates their exposure below 2.0', () => {
  const units = ['fillrate.service', 'fillrate-run.service', 'fillrate-run.timer'].map(
    (name) => `deploy/systemd/${name}`,
  )
  expect(run('systemd-analyze', 'verify', ...units)).toEqual({ status: 0, output: '' })
  for (const unit of units.slice(0, 2)) {
    // The threshold is ten times the rating.
    const rated = run('systemd-analyze', 'security', '--offline=true', '--threshold=19', '--no-pager', unit)
    expect(rated).toMatchObject({ status: 0 })
  }
})

test.skipIf(noCompose)('docker compose accepts docker-compose.yml', () => {
  const validated = spawnSync('docker', ['compose', 'config', '--quiet'], {
    env: { ...process.env, POSTGRES_PASSWORD: 'a', FILLRATE_DASHBOARD_TOKEN: 'b' },
    encoding: 'utf8',
  })
  expect(validated).toMatchObject({ status: 0, stderr: '' })
})

test('the health check of the image: the server must answer, any other command is healthy', async () => {
  let code = 200
  const { port, close } = await startLoopback(({ url }, response) =>
    response.writeHead(url === '/healthz' ? code : 404).end(),
  )
  const check = async (words: readonly string[]): Promise<number | null> => {
    const file = join(folder, 'cmdline')
    writeFileSync(file, words.map((word) => `${word}\0`).join(''))
    const child = spawn('bash', ['scripts/healthcheck.sh', file], {
      env: { PATH: process.env['PATH'], FILLRATE_PORT: String(port) },
    })
    return new Promise((done) => child.once('exit', done))
  }
  const main = ['node', '/app/dist/src/main.js']
  expect(await check([...main, 'start'])).toBe(0)
  code = 503
  expect(await check([...main, 'serve', '--port', '1'])).toBe(1)
  expect(await check([...main, 'run'])).toBe(0)
  await close()
  expect(await check([...main, 'start'])).toBe(1)
  expect(await check([...main, 'run', '--wait', '0'])).toBe(0)
})
