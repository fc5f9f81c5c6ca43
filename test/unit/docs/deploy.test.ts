import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { dockerfileStages } from '../../../scripts/dockerfile.ts'
import { parseCommandLine } from '../../../src/cli/parse.ts'
import { ENVIRONMENT_HELP } from '../../../src/cli/command.ts'
import { renderMetrics } from '../../../src/http/metrics.ts'

const read = (path: string): string => readFileSync(path, 'utf8')
const wordsOf = (command: string | string[]): string[] =>
  typeof command === 'string' ? command.split(' ') : command

interface Service {
  readonly image?: string
  readonly command?: string | string[]
  readonly environment?: Record<string, string>
  readonly depends_on?: Record<string, { condition: string }>
  readonly healthcheck?: object
  readonly volumes?: string[]
  readonly network_mode?: string
}

test('docker-compose.yml: dependencies, health checks, volumes, variables and commands are valid', () => {
  const { services, volumes } = parse(read('docker-compose.yml'), { merge: true }) as {
    services: Record<string, Service>
    volumes: object
  }
  const ofImage = (name: string): boolean => services[name]?.image === 'fillrate'
  for (const [name, service] of Object.entries(services)) {
    for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
      expect(services, `${name} waits for ${other}`).toHaveProperty(other)
      // The image of Fillrate has a health check of its own.
      expect(
        condition !== 'service_healthy' || ofImage(other) || services[other]?.healthcheck !== undefined,
      ).toBe(true)
    }
    for (const volume of service.volumes ?? []) {
      const [from = ''] = volume.split(':')
      const isThere = from.startsWith('.') ? existsSync(from) : from in volumes
      expect(isThere).toBe(true)
    }
    const shared = service.network_mode?.replace('service:', '')
    expect(shared === undefined || shared in services).toBe(true)
    const ours = ofImage(name)
    expect(
      Object.keys(ours ? (service.environment ?? {}) : {}).filter((one) => !(one in ENVIRONMENT_HELP)),
    ).toEqual([])
    if (ours) parseCommandLine(wordsOf(service.command ?? 'serve'))
  }
  expect(Object.keys(services)).toEqual(['postgres', 'migrate', 'fillrate', 'sandbox', 'run'])
})

test('the Dockerfile copies existing files, runs as a non-root user, and starts the program of package.json', () => {
  const stages = dockerfileStages(read('Dockerfile'))
  const steps = [...stages.values()].flat()
  for (const { word, from, rest } of steps.filter((step) => step.word === 'COPY'))
    expect(from === null ? rest.slice(0, -1).filter((path) => !existsSync(path)) : [word].slice(1)).toEqual(
      [],
    )
  const image = stages.get('image') ?? []
  const last = (word: string): string => image.findLast((step) => step.word === word)?.text ?? ''
  const { bin } = JSON.parse(read('package.json')) as { bin: { fillrate: string } }
  expect(JSON.parse(last('ENTRYPOINT'))).toEqual(['node', join('/app', bin.fillrate)])
  parseCommandLine(JSON.parse(last('CMD')) as string[])
  expect(last('USER')).toBe('node')
  expect(last('HEALTHCHECK')).toContain('/healthz')
  const ignored = read('.dockerignore').split('\n')
  expect(['src', 'migrations', 'assets', 'package.json'].filter((path) => ignored.includes(path))).toEqual([])
})

test('the Kubernetes example: two replicas, existing probe paths, valid commands, no root', () => {
  const documents = parseAllDocuments(read('deploy/kubernetes/fillrate.yaml'), { merge: true })
  expect(documents.flatMap((document) => document.errors)).toEqual([])
  const all = documents.map((document) => document.toJS() as { kind: string; spec: Record<string, never> })
  expect(all.map((one) => one.kind)).toEqual(['Deployment', 'Service', 'Ingress', 'CronJob'])
  const text = JSON.stringify(all)
  expect(all[0]?.spec['replicas']).toBe(2)
  for (const [, args = ''] of text.matchAll(/"args":(\[[^\]]*\])/g))
    parseCommandLine(JSON.parse(args) as string[])
  expect([...text.matchAll(/"httpGet":\{"path":"([^"]+)"/g)].map(([, path]) => path)).toEqual([
    '/healthz',
    '/readyz',
  ])
  expect(text.match(/"runAsNonRoot":true/g)).toHaveLength(2)
})

test.each(['deploy/systemd/fillrate.service', 'deploy/systemd/fillrate-run.service', 'deploy/crontab'])(
  '%s starts a valid command of the program in package.json',
  (path) => {
    const line = /^(?:ExecStart=|\d.*&& npx )(.*)$/m.exec(read(path))?.[1] ?? ''
    const [words = ''] = line.split(/ >> |;/)
    expect(words).toMatch(/dist\/src\/main\.js |^fillrate /)
    parseCommandLine(words.replace(/^.*(main\.js|fillrate) /, '').split(' '))
  },
)

const empty = {
  readAt: 0,
  sources: [],
  runs: [],
  jobs: [],
  rateLimits: [],
  calls: [],
  failures: [],
  skippedCells: [],
  usage: { requested: 0, written: 0, runs: 0 },
}
const known = new Set(
  [...(await renderMetrics(empty, [], 0)).matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  ),
)
const metricsIn = (text: string): string[] => [
  ...new Set([...text.matchAll(/\bfillrate_\w+/g)].map(([name]) => name)),
]

test('alerts and the Grafana dashboard use existing metrics, and docs/operations.md explains every alert and metric', () => {
  const alerts = (
    parse(read('deploy/prometheus/alerts.yml')) as { groups: { rules: { alert: string; expr: string }[] }[] }
  ).groups.flatMap((group) => group.rules)
  const { panels } = JSON.parse(read('deploy/grafana/fillrate.json')) as {
    panels: { targets: { expr: string }[] }[]
  }
  const expressions = [
    ...alerts.map((one) => one.expr),
    ...panels.flatMap((panel) => panel.targets.map((one) => one.expr)),
  ]
  expect(metricsIn(expressions.join('\n')).filter((name) => !known.has(name))).toEqual([])
  const operations = read('docs/operations.md')
  expect(alerts.map((one) => one.alert).filter((name) => !operations.includes(`**${name}**`))).toEqual([])
  const documented = new Set(metricsIn(operations))
  const undocumented = [...known]
    .map((name) => name.replace(/_(bucket|sum|count)$/, ''))
    .filter((name) => !documented.has(name))
  // Documented in one line with `fillrate_rate_limit_requests`.
  expect(undocumented).toEqual([
    'fillrate_rate_limit_window_seconds',
    'fillrate_rate_limit_remaining_requests',
  ])
})
