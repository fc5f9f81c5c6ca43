import { readdir } from 'node:fs/promises'
import { basename, dirname, extname, join, relative, resolve } from 'node:path'
import { readEnvironment, toVariablePart } from '../config/environment.ts'
import { findServiceModules, loadService } from '../config/load.ts'
import { ConfigProblems } from '../config/problems.ts'
import { parseService } from '../config/service.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { FoundService, FoundServices } from './proposal.ts'

const BUILT_IN = { module: null, given: null, service: BUILT_IN_SERVICE }
export const BUILT_IN_ONLY: FoundServices = {
  isNamed: false,
  services: [{ name: 'built-in', ...BUILT_IN }],
}

/**
 * Finds the services to propose for: the module that is named, here or in the configuration of this folder; or those whose keys the
 * environment has under a name (`FILLRATE_HUNTER_API_KEY`), with a module of that name in the folder or its `services`, or else
 * the built-in interface.
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
  if (only !== undefined) return { isNamed: false, services: [await readService(only, configPath)] }
  const environment = readEnvironment(env)
  const keyed = Object.entries(environment.services ?? {}).filter(([, { apiKeys }]) => apiKeys.length > 0)
  if (environment.apiKeys.length > 0 || keyed.length === 0) return BUILT_IN_ONLY
  const modules = [...(await listModules(join(cwd, 'services'))), ...(await listModules(cwd))]
  const services = keyed.map(async ([prefix]) => {
    const path = modules.find((one) => `FILLRATE_${toVariablePart(toName(one))}_` === prefix)
    const name = prefix.slice('FILLRATE_'.length, -1).toLowerCase()
    return path === undefined ? { name, ...BUILT_IN } : readService(path, configPath)
  })
  return { isNamed: true, services: await Promise.all(services) }
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
