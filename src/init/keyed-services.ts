import { readdir } from 'node:fs/promises'
import { basename, dirname, extname, join, relative, resolve } from 'node:path'
import { type Environment, toVariablePart } from '../config/environment.ts'
import { loadService } from '../config/load.ts'
import { ConfigProblems } from '../config/problems.ts'
import { type GivenService, parseService } from '../config/service.ts'
import { type LookupKind, toLookupKind } from '../domain/identifiers/kind.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { Service } from '../domain/service/service.ts'
import { findPackageFolder } from '../util/version.ts'
import { toOutputConfig } from './config-object.ts'
import type { Proposal, ProposedOutput, ProposedService, ProposedSource, ShippedService } from './proposal.ts'
import { adaptProposal } from './service-fields.ts'
import type { AcceptedSource } from './verify.ts'

/** A service whose key is in the environment, under its name, as it is called. */
interface KeyedService extends ProposedService {
  readonly given: GivenService | null
  readonly service: Service
}

/** The keys of the environment, and what each belongs to. */
export interface FoundKeys {
  readonly services: readonly KeyedService[]
  readonly shipped: readonly ShippedService[]
}

const EXTENSIONS = new Set(['.ts', '.mts', '.js', '.mjs'])

/**
 * Finds the services whose keys the environment has under a name, `FILLRATE_HUNTER_API_KEY`: with a module of that name in the folder or
 * its `services`, a description that the package ships, or else the built-in interface.
 * @throws ConfigProblems if one of the modules has mistakes
 */
export async function findKeyedServices(
  { services = {} }: Pick<Environment, 'services'>,
  { cwd, configPath }: { readonly cwd: string; readonly configPath: string },
): Promise<FoundKeys> {
  const own = [...(await listModules(join(cwd, 'services'))), ...(await listModules(cwd))]
  const examples = await listModules(join(findPackageFolder() ?? cwd, 'examples', 'services'))
  const found: { services: KeyedService[]; shipped: ShippedService[] } = { services: [], shipped: [] }
  for (const [prefix, { apiKeys }] of Object.entries(services)) {
    if (apiKeys.length === 0) continue
    const isOf = (path: string): boolean => `FILLRATE_${toVariablePart(toName(path))}_` === prefix
    const [path, example] = [own.find(isOf), examples.find(isOf)]
    if (path !== undefined) found.services.push(await readKeyedService(path, configPath))
    else if (example !== undefined)
      found.shipped.push({ name: toName(example), path: relative(cwd, example).replaceAll('\\', '/') })
    else {
      const name = prefix.slice('FILLRATE_'.length, -1).toLowerCase()
      found.services.push({ name, module: null, given: null, service: BUILT_IN_SERVICE })
    }
  }
  return found
}

const toName = (path: string): string => basename(path, extname(path))

async function listModules(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  return names.filter((name) => EXTENSIONS.has(extname(name))).map((name) => resolve(folder, name))
}

async function readKeyedService(path: string, configPath: string): Promise<KeyedService> {
  const given = await loadService(path)
  const { service, problems } = parseService(given)
  if (service === null) throw new ConfigProblems(path, problems)
  const from = relative(dirname(configPath), path).replaceAll('\\', '/')
  return { name: toName(path), module: from.startsWith('.') ? from : `./${from}`, given, service }
}

/** What to propose for several services: each source with the fields of the first one that can serve it. */
interface CombinedProposal {
  readonly proposal: Proposal
  /** The service of which a proposed source has the fields. */
  readonly givenFor: (source: ProposedSource) => GivenService | null
  /** A source that was accepted, with the columns and inputs of the other services. */
  readonly addOthers: (accepted: AcceptedSource) => AcceptedSource
}

/** Pure. */
export function combineProposals(found: Proposal, services: readonly KeyedService[]): CombinedProposal {
  const each = services.map((keyed) => ({
    ...keyed,
    proposal: keyed.service === BUILT_IN_SERVICE ? found : adaptProposal(found, keyed.service),
  }))
  const findIn = ({ proposal }: (typeof each)[number], name: string): ProposedSource | undefined =>
    proposal.sources.find((source) => source.name === name)
  const serving = (name: string) => each.filter((one) => findIn(one, name) !== undefined)
  const sources = found.sources.flatMap(({ name }) => {
    const [first] = serving(name)
    return (first && findIn(first, name)) ?? []
  })
  const tables = new Set(sources.map(({ table }) => table))
  return {
    proposal: {
      ...found,
      sources,
      skippedTables: (each[0]?.proposal ?? found).skippedTables.filter(({ table }) => !tables.has(table)),
    },
    givenFor: ({ name }) => serving(name)[0]?.given ?? null,
    addOthers: (accepted) => {
      const { name } = accepted.source
      const all = found.sources.find((source) => source.name === name) ?? accepted.source
      const able = services.filter(({ service }) => all.inputs.some((one) => isTaken(all, one, service)))
      const byService = serving(name).map((one, n) => ({
        name: one.name,
        outputs: (n === 0 ? accepted.source : findIn(one, name))?.outputs ?? [],
      }))
      const outputs = mergeOutputs(byService, able.length)
      const identifiedBy = Object.entries(all.sample.identifiedBy).filter(([kind]) =>
        able.some(({ service }) => service[all.kind]?.inputs.has(kind as LookupKind) === true),
      )
      const columns = new Set(outputs.map(({ column }) => column))
      return {
        ...accepted,
        source: {
          ...accepted.source,
          inputs: all.inputs.filter((one) => able.some(({ service }) => isTaken(all, one, service))),
          outputs,
          sample: { ...all.sample, identifiedBy: Object.fromEntries(identifiedBy) },
          skippedColumns: accepted.source.skippedColumns.filter(({ column }) => !columns.has(column)),
        },
      }
    },
  }
}

const isTaken = (
  { kind }: ProposedSource,
  { input }: ProposedSource['inputs'][number],
  service: Service,
): boolean => service[kind]?.inputs.has(toLookupKind(input)) === true

/** One output for all services where each fills the column in the same way, or else those of each. */
function mergeOutputs(
  services: readonly { readonly name: string; readonly outputs: readonly ProposedOutput[] }[],
  able: number,
): ProposedOutput[] {
  const columns = [...new Set(services.flatMap(({ outputs }) => outputs.map(({ column }) => column)))]
  return columns.flatMap((column) => {
    const byService = services.flatMap(({ name, outputs }) => {
      const output = outputs.find((one) => one.column === column)
      return output === undefined ? [] : [[name, output] as const]
    })
    const [first] = byService
    if (first === undefined) return []
    const forms = new Set(byService.map(([, output]) => JSON.stringify(toOutputConfig(output))))
    return forms.size === 1 && byService.length === able ? [first[1]] : [{ ...first[1], byService }]
  })
}
