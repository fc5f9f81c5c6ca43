import type { FastifyRequest } from 'fastify'
import type { SourceMapping } from '../../domain/mapping.ts'
import { findRun, type LivingRun } from '../../store/runs.ts'
import { FillrateError } from '../../util/error-text.ts'
import { errorBody } from './components.ts'
import { html, type Markup, type HtmlPart } from './html.ts'
import type { Actions } from '../../actions/actions.ts'
import type { SpendSettings } from '../../actions/spend.ts'
import type { Config } from '../../config/config.ts'
import type { DashboardData, Verdict, SystemData } from '../../actions/dashboard-data.ts'
import type { FailureReason } from '../../store/row-search.ts'
import type { DatabaseOutage } from '../../domain/condition.ts'
import type { Observer } from '../../store/condition-facts.ts'
import type { WorkMetrics } from '../../pipeline/metrics-recorder.ts'
import type { Database } from '../../store/open.ts'
import type { Log } from '../../util/log.ts'

export interface DashboardOptions {
  readonly db: Database
  readonly config: SpendSettings & Pick<Config, 'sources'>
  /** What this process knows and Postgres does not, and what keeps it from Postgres. */
  readonly observer: () => Observer & { readonly outage: DatabaseOutage | null }
  /** Null while Postgres or the schema is waited for. */
  readonly app: () => Actions | null
  /** What this process has done. */
  readonly metrics: WorkMetrics
  readonly log: Log
}

/** What pages and actions read and change. */
export interface DashboardDeps extends DashboardOptions {
  /** Each is read once for all readers of about the same time. The verdict is some seconds old at most. */
  readonly readVerdict: () => Promise<Verdict>
  readonly readData: () => Promise<DashboardData>
  readonly readSystem: () => Promise<SystemData>
  /** Why rows of the configured sources are not enriched, the most frequent reason first. */
  readonly readReasons: () => Promise<readonly FailureReason[]>
}

/** A page of the dashboard. `pages.ts` lists them all. */
export interface Page {
  /** `:name` is a parameter. */
  readonly path: string
  /** Its title, and its entry in the navigation. Missing: other pages lead to it, and each view has a title. */
  readonly name?: string
  /** The page of the navigation that it belongs to, if its path is not below that one's. */
  readonly within?: string
  /** It shows itself anew every few seconds. */
  readonly isLive?: boolean
  readonly isOperatorOnly?: boolean
  /** Reads and renders it, or leads to another page. @throws PageRefused if there is no such thing */
  readonly show: (request: PageRequest, deps: DashboardDeps) => Promise<View | { readonly redirect: string }>
}

export interface PageRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** An operator's: the page may offer actions. */
  readonly canAct: boolean
}

/** What a page shows. */
export interface View {
  readonly title?: string
  readonly body: Markup
  /** A live page that changes no more. */
  readonly isFinal?: boolean
}

/** What was requested is impossible, and a page says why. */
export class PageRefused extends FillrateError {
  override readonly name = 'PageRefused'
  readonly status: number
  readonly view: View & { readonly title: string }

  /** @param body with its own heading and its own way back, such as a form to correct */
  constructor(status: number, title: string, body: Markup) {
    super(title)
    this.status = status
    this.view = { title, body }
  }
}

export const refused = (status: number, title: string, reason: HtmlPart): PageRefused =>
  new PageRefused(status, title, errorBody(title, reason))

/** What was requested does not exist, or no longer does. */
export const missing = (title: string, reason: HtmlPart): PageRefused =>
  refused(404, title, html`<p>${reason}</p>`)

/** @returns the source that the request is about */
export function requireSource({ params }: PageRequest, { config }: DashboardDeps): SourceMapping {
  const { source = '' } = params
  const mapping = config.sources[source]
  if (mapping !== undefined && Object.hasOwn(config.sources, source)) return mapping
  throw missing(
    'No such source',
    html`The configuration has no source <strong>${source}</strong>. <a href="/sources">Sources</a>`,
  )
}

/** @returns the run that the request is about */
export async function requireRun({ params }: PageRequest, { db }: DashboardDeps): Promise<LivingRun> {
  const id = parseId(params['id'])
  const run = id === null ? null : await findRun(db, id)
  if (run !== null) return run
  throw missing(
    'No such run',
    html`There is no run ${params['id']}, or it was deleted as too old. <a href="/runs">All runs</a>`,
  )
}

export const toPageRequest = (request: FastifyRequest): PageRequest => ({
  params: request.params as Record<string, string>,
  query: new URL(request.url, 'http://localhost').searchParams,
  canAct: request.access?.isOperator === true,
})

/** Null if it is not the number of anything. */
export function parseId(text: string | null | undefined): number | null {
  const id = Number(text)
  return Number.isSafeInteger(id) && id > 0 ? id : null
}
