import { spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'

// Packs this checkout as `npm publish` would, installs the tarball in an empty folder and uses it there as a user does:
// node scripts/try-package.ts. After packing, only the checkout's compiler is used. With versions of Node, as in
// `node scripts/try-package.ts 22.22 24 26`, each of them (from the package `node` of npm) runs the program, too.

const ROOT = new URL('../', import.meta.url).pathname
const place = mkdtempSync(join(tmpdir(), 'fillrate-package-'))
const consumer = join(place, 'consumer')
/** Another version of undici than that of package.json. */
const OVERRIDE = '8.12.0'

const CONFIG = `
export default {
  sources: { contacts: { kind: 'person', table: 'crm.contacts', inputs: { email: 't.email' }, outputs: { title: 'title' } } },
  budget: 100,
}
`

const CONSUMER = `
import { ConfigProblems, createFillrate, defineConfig, type RunReport } from 'fillrate'

export const config = defineConfig({
  sources: {
    contacts: { kind: 'person', table: 'crm.contacts', inputs: { email: 't.email' }, outputs: { title: 'title' } },
  },
  budget: 100,
})
export async function enriched(): Promise<number> {
  await using fillrate = await createFillrate({ config, env: {} })
  const report: RunReport = await fillrate.run({ limit: 10 })
  return report.rows.enriched
}
// @ts-expect-error: a budget is a number or 'unlimited'
defineConfig({ sources: {}, budget: 'all' })
export const known = [ConfigProblems]
`

try {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
  const tarball = pack('first', version)
  // So the package of the registry can be compared with a build of its commit.
  if (!readFileSync(tarball).equals(readFileSync(pack('second', version))))
    throw new Error('two builds of the same commit differ; unpack and compare them with npm pack')
  console.log('✓ two builds are the same to the byte')
  // npm corrects some of package.json by itself, and warns, when it publishes a folder. With --force also a version that the
  // registry has.
  const dryRun = ['publish', '--dry-run', '--force', '--ignore-scripts', '--loglevel=warn']
  const { stderr } = run('npm', dryRun, ROOT)
  if (stderr.includes('npm pkg fix')) throw new Error(stderr)
  console.log('✓ npm would publish it as it is')
  mkdirSync(consumer)
  writeFileSync(join(consumer, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  run('npm', ['install', '--no-audit', '--no-fund', tarball, '@types/node@24'])
  const program = join(consumer, 'node_modules/.bin/fillrate')

  const printed = run(program, ['--version']).stdout.trim()
  if (printed !== version) throw new Error(`--version printed ${printed}, expected ${version}`)
  console.log(`✓ --version prints ${version}`)

  const old = olderNode()
  if (old === null)
    console.log('- no Node older than 22.22 on this machine: the version check was not tested')
  else checkOldNode(old, program)

  writeFileSync(join(consumer, 'consumer.ts'), CONSUMER)
  const strict = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2024']
  const modules = ['--module', 'nodenext', '--types', 'node', '--lib', 'es2024,esnext.disposable']
  run(join(ROOT, 'node_modules/.bin/tsc'), [...strict, ...modules, 'consumer.ts'])
  console.log('✓ a consumer passes the type check')

  checkCompileCache(program)
  checkPackages(program)
  checkOverride(tarball)

  run(program, ['demo'])
  console.log('✓ the demo exits with 0')
  for (const wanted of process.argv.slice(2)) await tryNode(wanted, program)
} finally {
  rmSync(place, { recursive: true, force: true })
}

/** Builds and packs into a folder of its own. */
function pack(folder: string, version: string): string {
  mkdirSync(join(place, folder))
  run('npm', ['pack', '--pack-destination', join(place, folder)], ROOT)
  return join(place, folder, `fillrate-${version}.tgz`)
}

/** @throws with the command's output if it exits with another code than these */
function run(
  command: string,
  args: readonly string[],
  cwd: string = consumer,
  exits: readonly number[] = [0],
  variables: NodeJS.ProcessEnv = {},
): SpawnSyncReturns<string> {
  const ran = spawnSync(command, args, { cwd, encoding: 'utf8', env: { ...process.env, ...variables } })
  if (ran.status === null || !exits.includes(ran.status))
    throw new Error(`${command} ${args.join(' ')} exited with ${ran.status}\n${ran.stdout}${ran.stderr}`)
  return ran
}

/** The user's cache folder has the compiled code; the package's own folder, which others may read and run, stays as it is. */
function checkCompileCache(program: string): void {
  const caches = join(place, 'caches')
  run(program, ['--version'], consumer, [0], { XDG_CACHE_HOME: caches })
  if (!existsSync(join(caches, 'fillrate'))) throw new Error(`no compiled code in ${caches}`)
  if (existsSync(join(consumer, 'node_modules/fillrate/dist/.cache')))
    throw new Error('compiled code was written into the folder of the package')
  console.log("✓ compiled code is kept in the user's cache folder")
}

/** What npm says of the packages is true of the program: it runs no copy of one that npm does not list. */
function checkPackages(program: string): void {
  const listed = new Set(run('npm', ['ls', '--all', '--omit=dev', '--parseable']).stdout.trim().split('\n'))
  const loaded = listLoaded(program, consumer)
  const unlisted = loaded.filter((folder) => !listed.has(folder))
  if (unlisted.length > 0) throw new Error(`npm ls does not list what runs: ${unlisted.join(', ')}`)
  const direct = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  const bundled = ['kysely', 'pg', 'undici', 'zod'].filter(
    (name) => !(name in direct.dependencies && loaded.includes(join(consumer, 'node_modules', name))),
  )
  if (bundled.length > 0) throw new Error(`not loaded from where npm installed it: ${bundled.join(', ')}`)
  console.log(`✓ npm ls lists the ${loaded.length} packages that fillrate plan loads`)
}

/** An entry of `overrides` decides which undici runs, as for a fix that must not wait for a release. */
function checkOverride(tarball: string): void {
  const folder = join(place, 'override')
  mkdirSync(folder)
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ private: true, type: 'module', overrides: { undici: OVERRIDE } }),
  )
  run('npm', ['install', '--no-audit', '--no-fund', '--omit=optional', tarball], folder)
  const loaded = listLoaded(join(folder, 'node_modules/.bin/fillrate'), folder)
  const versions = loaded
    .filter((one) => one.endsWith('/undici'))
    .map(
      (one) => (JSON.parse(readFileSync(join(one, 'package.json'), 'utf8')) as { version: string }).version,
    )
  if (versions.join() !== OVERRIDE)
    throw new Error(`overrides asks for undici ${OVERRIDE}; loaded: ${versions.join() || 'none of npm'}`)
  console.log(`✓ with an override, undici ${OVERRIDE} is loaded`)
}

/** The folders of the packages whose files `fillrate plan` loads, of a configuration whose database does not answer. */
function listLoaded(program: string, folder: string): string[] {
  const coverage = join(place, 'coverage')
  writeFileSync(join(folder, 'fillrate.config.ts'), CONFIG)
  run(program, ['plan'], folder, [1, 2], {
    NODE_V8_COVERAGE: coverage,
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
    FILLRATE_BASE_URL: 'http://127.0.0.1:1',
    FILLRATE_API_KEY: 'key',
  })
  const urls = readdirSync(coverage).flatMap((file) => {
    const { result } = JSON.parse(readFileSync(join(coverage, file), 'utf8')) as { result: { url: string }[] }
    return result.map(({ url }) => url)
  })
  rmSync(coverage, { recursive: true })
  const folders = urls.flatMap(
    (url) => /^file:\/\/(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? [],
  )
  return [...new Set(folders)]
}

/** Help, the demo, and on its database what a user does first. */
async function tryNode(wanted: string, program: string): Promise<void> {
  const folder = join(place, `node-${wanted}`)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  run('npm', ['install', '--no-audit', '--no-fund', `node@${wanted}`], folder)
  const node = join(folder, 'node_modules/node/bin/node')
  const version = run(node, ['--version']).stdout.trim()
  run(node, [program, '--help'])
  rmSync(join(consumer, '.fillrate'), { recursive: true, force: true })
  const demo = spawn(node, [program, 'demo', '--keep'], {
    cwd: consumer,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(demo, 'exit')
  try {
    for await (const text of demo.stdout.setEncoding('utf8')) if (String(text).includes('Ctrl-C stops')) break
    // As the demo suggests, on its database and with its services.
    const here = join(consumer, '.fillrate')
    const fillrate = (...words: string[]): string => run(node, [program, ...words], here, [0, 3, 4]).stdout
    fillrate('check')
    fillrate('plan')
    const report = JSON.parse(fillrate('run', '--limit', '20', '--json')) as { run: number }
    fillrate('undo', String(report.run), '--yes')
    fillrate('status')
  } finally {
    demo.kill('SIGINT')
    await ended
  }
  console.log(`✓ Node ${version}: --help, demo, check, plan, run, undo and status`)
}

/** The machine's own Node if it is too old. `npm run` puts the project's Node before it in PATH. */
function olderNode(): string | null {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const node = join(folder, 'node')
    if (folder.includes('node_modules') || !existsSync(node)) continue
    const found = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim()
    const [major = 0, minor = 0] = found.slice(1).split('.').map(Number)
    if (major < 22 || (major === 22 && minor < 22)) return node
  }
  return null
}

function checkOldNode(node: string, program: string): void {
  const { status, stderr } = spawnSync(node, [program, '--version'], { encoding: 'utf8' })
  if (status !== 2 || !/^fillrate: Node 22\.22 or newer is required; .*\n$/.test(stderr))
    throw new Error(`${node} exited with ${status} and printed: ${stderr}`)
  console.log(`✓ an older Node is rejected: ${stderr.trim()}`)
}
