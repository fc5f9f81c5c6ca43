import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { parseCommandLine } from '../../../src/cli/cli.ts'
import { ENVIRONMENT_VARIABLES } from '../../../src/config/environment.ts'
import { renderMetrics } from '../../../src/http/metrics.ts'
import { WorkMetrics } from '../../../src/pipeline/metrics-recorder.ts'
import { EMPTY_METRICS } from '../../support/empty-metrics.ts'

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
  readonly read_only?: boolean
  readonly cap_drop?: string[]
  readonly ports?: string[]
  readonly deploy?: { resources: { limits: { memory: string } } }
}

test('docker-compose.yml: dependencies, health checks, volumes, variables and commands are valid', () => {
  const { services, volumes } = parse(read('docker-compose.yml'), { merge: true }) as {
    services: Record<string, Service>
    volumes: object
  }
  const ofImage = (name: string): boolean => services[name]?.image?.startsWith('fillrate:') === true
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
      Object.keys(ours ? (service.environment ?? {}) : {}).filter((one) => !(one in ENVIRONMENT_VARIABLES)),
    ).toEqual([])
    if (ours) parseCommandLine(wordsOf(service.command ?? 'start'))
    expect({ name, ...service }).toMatchObject(ours ? { read_only: true, cap_drop: ['ALL'] } : {})
    expect(service.deploy?.resources.limits.memory).toBeDefined()
  }
  expect(
    Object.entries(services).flatMap(([name, { ports = [] }]) => ports.map((port) => [name, port])),
  ).toEqual([['fillrate', '127.0.0.1:8080:8080']])
  expect(read('docker-compose.yml')).not.toMatch(/PASSWORD(?::-|=\w)|TOKEN:-/)
  // Only the role that migrates may create anything; neither is the superuser.
  const roles = Object.entries(services).map(([name, { environment }]) => [
    name,
    /\/\/(\w+):/.exec(environment?.['DATABASE_URL'] ?? '')?.[1],
  ])
  expect(Object.fromEntries(roles)).toEqual({
    migrate: 'fillrate_owner',
    fillrate: 'fillrate_app',
    run: 'fillrate_app',
  })
  expect(Object.keys(services)).toEqual(['postgres', 'migrate', 'fillrate', 'sandbox', 'run'])
})

test('the Dockerfile copies existing files, runs as a non-root user, and starts the program of package.json', () => {
  const steps = read('Dockerfile')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.split(/\s+/))
  // What is copied from a stage before is in no checkout.
  const copied = steps.filter(([word, first = '']) => word === 'COPY' && !first.startsWith('--from='))
  const missing = copied.flatMap((words) => words.slice(1, -1)).filter((path) => !existsSync(path))
  expect([copied.length > 0, missing]).toEqual([true, []])
  const image = steps.slice(steps.findLastIndex(([word]) => word === 'FROM'))
  const last = (word: string): string =>
    image
      .findLast(([first]) => first === word)
      ?.slice(1)
      .join(' ') ?? ''
  const { bin } = JSON.parse(read('package.json')) as { bin: { fillrate: string } }
  expect(JSON.parse(last('ENTRYPOINT'))).toEqual(['node', join('/app', bin.fillrate)])
  parseCommandLine(JSON.parse(last('CMD')) as string[])
  expect(last('USER')).toBe('node')
  expect(last('HEALTHCHECK')).toContain('/app/healthcheck.sh')
  const { devDependencies, version } = JSON.parse(read('package.json')) as {
    devDependencies: { node: string }
    version: string
  }
  // The base is the Node that everything is tested with.
  expect(read('Dockerfile')).toContain(`\nARG NODE=node:${devDependencies.node}-slim\n`)
  expect(read('Dockerfile').match(/^FROM .*/gm)).toEqual([
    'FROM --platform=$BUILDPLATFORM ${NODE} AS build',
    'FROM ${NODE}',
  ])
  expect(last('LABEL')).toContain('org.opencontainers.image.licenses="MIT"')
  expect(last('ARG')).toContain('REVISION')
  expect(read('Dockerfile')).toContain(`ARG VERSION=${version}\n`)
  const ignored = read('.dockerignore').split('\n')
  expect(['src', 'migrations', 'assets', 'package.json'].filter((path) => ignored.includes(path))).toEqual([])
})

test('the alert rules of the chart are those of deploy/prometheus', () => {
  expect(read('deploy/helm/fillrate/alerts.yml')).toBe(read('deploy/prometheus/alerts.yml'))
})

test('the chart has the version of the program, and a schema for each value', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string }
  expect(parse(read('deploy/helm/fillrate/Chart.yaml'))).toMatchObject({ version, appVersion: version })
  const values = parse(read('deploy/helm/fillrate/values.yaml')) as Record<string, object>
  const { properties } = JSON.parse(read('deploy/helm/fillrate/values.schema.json')) as {
    properties: Record<string, { properties?: object }>
  }
  expect(Object.keys(properties).filter((name) => name !== 'global')).toEqual(Object.keys(values))
  const nested = Object.entries(properties).filter(([, one]) => one.properties !== undefined)
  expect(nested.map(([name, one]) => [name, Object.keys(one.properties ?? {})])).toEqual(
    nested.map(([name]) => [name, Object.keys(values[name] ?? {})]),
  )
})

test.each(['deploy/systemd/fillrate.service', 'deploy/systemd/fillrate-run.service', 'deploy/crontab'])(
  '%s starts a valid command of the program in package.json',
  (path) => {
    const line = /^(?:ExecStart=|\d.*npx )(.*)$/m.exec(read(path))?.[1] ?? ''
    const [words = ''] = line.split(/ > |;/)
    expect(words).toMatch(/dist\/src\/main\.js |^fillrate /)
    parseCommandLine(words.replace(/^.*(main\.js|fillrate) /, '').split(' '))
  },
)

/** With several services. */
const { data } = EMPTY_METRICS
const metrics = await renderMetrics(new WorkMetrics(), {
  ...EMPTY_METRICS,
  data: { ...data, spend: { ...data.spend, services: [] } },
})
const known = new Set(
  [...metrics.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
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
  const { panels, templating, annotations } = JSON.parse(read('deploy/grafana/fillrate.json')) as {
    panels: { title: string; description?: string; targets: { expr: string }[] }[]
    templating: { list: { name: string; definition?: string }[] }
    annotations: { list: { expr: string }[] }
  }
  expect(templating.list.map((one) => one.name)).toEqual(['datasource', 'job', 'instance', 'source'])
  expect(panels.filter((panel) => panel.description === undefined)).toEqual([])
  const expressions = [
    ...alerts.map((one) => one.expr),
    ...panels.flatMap((panel) => panel.targets.map((one) => one.expr)),
    ...annotations.list.map((one) => one.expr),
    ...templating.list.map((one) => one.definition ?? ''),
  ]
  expect(metricsIn(expressions.join('\n')).filter((name) => !known.has(name))).toEqual([])
  // What is known of each service is shown by it, and calls are judged by it.
  const shown = panels.flatMap((panel) => panel.targets.map((one) => one.expr))
  for (const name of ['fillrate_requests_total', 'fillrate_lookups_total', 'fillrate_lookups_spent_today'])
    expect(shown.filter((one) => one.includes(name) && one.includes('by (service'))).not.toEqual([])
  const ofCalls = alerts.filter(({ expr }) => expr.includes('fillrate_requests_total'))
  expect(ofCalls.filter(({ expr }) => !expr.includes('by (service)') || expr.includes('on ()'))).toEqual([])
  const operations = read('docs/operations.md')
  expect(alerts.map((one) => one.alert).filter((name) => !operations.includes(`**${name}**`))).toEqual([])
  const documented = new Set(metricsIn(operations))
  const undocumented = [...known]
    .map((name) => name.replace(/_(bucket|sum|count)$/, ''))
    // prom-client's own, documented as a group.
    .filter((name) => name.startsWith('fillrate_') && !documented.has(name))
  // Documented in one line with `fillrate_rate_limit_requests`.
  expect(undocumented).toEqual(['fillrate_rate_limit_remaining_requests'])
})
