import { type Config, listViews } from '../config/config.ts'
import type { AnswerLine } from '../store/service-report.ts'
import type { KnownService } from '../store/services.ts'

/** A service, as the report and the what-if know it. */
export interface ReportedService {
  /** Below 0: the database does not know it yet. */
  readonly id: number
  readonly name: string
  readonly host: string | null
  /** The configuration as it sees it. Null: it is not configured. */
  readonly view: Config | null
}

/** The services of the configuration in its order, called or not, and then the others of this database. */
export function matchServices(
  known: readonly KnownService[],
  config: Config,
  address: string | null,
): ReportedService[] {
  const isOf = (one: KnownService, view: Config): boolean =>
    view.serviceName === null
      ? one.host === address || (address === null && one === known[0])
      : one.name === view.serviceName
  const configured = listViews(config).map((view, n): ReportedService => {
    const { id = -1 - n, host = null } = known.find((one) => isOf(one, view)) ?? {}
    return { id, host, name: view.serviceName ?? host ?? address ?? 'the service', view }
  })
  const others = known.filter((one) => !configured.some(({ id }) => id === one.id))
  return [
    ...configured,
    ...others.map(({ id, host, name }) => ({ id, host, name: name ?? host, view: null })),
  ]
}

/** The services of which the rows of a source have answers, or that serve it. */
export const listParticipants = (
  services: readonly ReportedService[],
  lines: readonly AnswerLine[],
  source: string,
): ReportedService[] =>
  services.filter(
    ({ id, view }) =>
      view?.sources[source] !== undefined ||
      lines.some(
        (one) =>
          one.source === source &&
          (one.kind === 'cells' ? one.service === id : Object.hasOwn(one.answers ?? {}, id)),
      ),
  )

/** The services of a set of cells, `{1,2}`. */
export const parseServices = (set: string): number[] => set.slice(1, -1).split(',').map(Number)
