import { readdir } from 'node:fs/promises'
import { basename, dirname, extname, join, relative, resolve } from 'node:path'
import { readEnvironment, toVariablePart } from '../config/environment.ts'
import { findServiceModules, loadService } from '../config/load.ts'
import { ConfigProblems } from '../config/problems.ts'
import { parseService } from '../config/service.ts'
import { type LookupKind, toLookupKind } from '../domain/identifiers/kind.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { Service } from '../domain/service/service.ts'
import { findPackageFolder } from '../util/version.ts'
import { toOutputConfig } from './config-object.ts'
import type { FoundService, FoundServices, Proposal, ProposedOutput, ProposedSource } from './proposal.ts'
import { adaptProposal } from './service-fields.ts'

const BUILT_IN = { module: null, given: null, service: BUILT_IN_SERVICE }
export const BUILT_IN_ONLY: FoundServices = {
  isNamed: false,
  services: [{ name: 'built-in', ...BUILT_IN }],
  shipped: [],
}

/**
 * Finds the services to propose for: the module that is named, here or in the configuration of this folder; or those whose keys the
 * environment has under a name (`FILLRATE_HUNTER_API_KEY`), with a module of that name in the folder or its `services`, a
 * description that the package ships, or else the built-in interface.
 * @throws ConfigProblems if one of the modules has mistakes
 */
export async function findServices(options: {
  readonly module: string | null
  readonly env: NodeJS.ProcessEnv
  readonly cwd: string
  readonly configPath: string
}): Promise<FoundServices> {
  const { module, env, cwd, configPath } = options
  const only = module === null ? (await findServiceModules({ cwd })).get(null) : resolve(cwd, module)
  if (only !== undefined)
    return { isNamed: false, services: [await readService(only, configPath)], shipped: [] }
  const environment = readEnvironment(env)
  const keyed = Object.entries(environment.services ?? {}).filter(([, { apiKeys }]) => apiKeys.length > 0)
  if (environment.apiKeys.length > 0 || keyed.length === 0) return BUILT_IN_ONLY
  const own = [...(await listModules(join(cwd, 'services'))), ...(await listModules(cwd))]
  const examples = await listModules(join(findPackageFolder() ?? cwd, 'examples', 'services'))
  const services: FoundService[] = []
  const shipped: { name: string; path: string }[] = []
  for (const [prefix] of keyed) {
    const isOf = (path: string): boolean => `FILLRATE_${toVariablePart(toName(path))}_` === prefix
    const [path, example] = [own.find(isOf), examples.find(isOf)]
    if (path !== undefined) services.push(await readService(path, configPath))
    else if (example === undefined)
      services.push({ name: prefix.slice('FILLRATE_'.length, -1).toLowerCase(), ...BUILT_IN })
    else shipped.push({ name: toName(example), path: relative(cwd, example).replaceAll('\\', '/') })
  }
  return services.length === 0 ? { ...BUILT_IN_ONLY, shipped } : { isNamed: true, services, shipped }
}

const toName = (path: string): string => basename(path, extname(path))

async function listModules(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  return names.filter((name) => /\.m?[jt]s$/.test(name)).map((name) => resolve(folder, name))
}

async function readService(path: string, configPath: string): Promise<FoundService> {
  const given = await loadService(path)
  const { service, problems } = parseService(given)
  if (service === null) throw new ConfigProblems(path, problems)
  const from = relative(dirname(configPath), path).replaceAll('\\', '/')
  return { name: toName(path), module: from.startsWith('.') ? from : `./${from}`, given, service }
}

/** What to propose for the services: each source with what any of them takes and fills. Pure. */
export function proposeForServices(found: Proposal, { services }: FoundServices): Proposal {
  const each = services.map(({ name, service }) => ({
    name,
    service,
    proposal: service === BUILT_IN_SERVICE ? found : adaptProposal(found, service),
  }))
  const [first, ...others] = each
  if (first === undefined || others.length === 0) return first?.proposal ?? found
  const sources = found.sources.flatMap((all) => {
    const able = each.filter(({ service }) => all.inputs.some((one) => isTaken(all, one, service)))
    const serving = able.flatMap(({ name, proposal }) =>
      proposal.sources.flatMap((source) => (source.name === all.name ? [{ name, source }] : [])),
    )
    const [{ source } = { source: null }] = serving
    if (source === null) return []
    const outputs = mergeOutputs(serving, able.length)
    const identifiedBy = Object.entries(all.sample.identifiedBy).filter(([kind]) =>
      able.some(({ service }) => service[all.kind]?.inputs.has(kind as LookupKind) === true),
    )
    return [
      {
        ...source,
        inputs: all.inputs.filter((one) => able.some(({ service }) => isTaken(all, one, service))),
        outputs,
        sample: { ...all.sample, identifiedBy: Object.fromEntries(identifiedBy) },
        skippedColumns: source.skippedColumns.filter(({ column }) =>
          outputs.every((one) => one.column !== column),
        ),
      },
    ]
  })
  const tables = new Set(sources.map(({ table }) => table))
  const skippedTables = first.proposal.skippedTables.filter(({ table }) => !tables.has(table))
  return { ...found, sources, skippedTables }
}

const isTaken = (
  { kind }: ProposedSource,
  { input }: ProposedSource['inputs'][number],
  service: Service,
): boolean => service[kind]?.inputs.has(toLookupKind(input)) === true

/** One output for all services where each fills the column in the same way, or else those of each. */
function mergeOutputs(
  serving: readonly { readonly name: string; readonly source: ProposedSource }[],
  able: number,
): ProposedOutput[] {
  const all = serving.flatMap(({ name, source }) => source.outputs.map((output) => [name, output] as const))
  return [...Map.groupBy(all, ([, { column }]) => column).values()].flatMap((byService) => {
    const [first] = byService
    if (first === undefined) return []
    const forms = new Set(byService.map(([, output]) => JSON.stringify(toOutputConfig(output))))
    return forms.size === 1 && byService.length === able ? [first[1]] : [{ ...first[1], byService }]
  })
}
