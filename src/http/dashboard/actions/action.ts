import { FillrateError } from '../../../util/error-text.ts'
import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { auditActionOnce, type AuditEnd } from '../../../actions/audit.ts'
import type { ForgetDeletedReport } from '../../../actions/forget-deleted.ts'
import type { Plan } from '../../../actions/plan/plan.ts'
import type { RetryOptions, RetryReport } from '../../../actions/retry.ts'
import type { UndoReport } from '../../../actions/undo/report.ts'
import type { UndoOptions } from '../../../actions/undo/undo.ts'
import type { LookupBudget } from '../../../domain/spend.ts'
import { ConfigProblems } from '../../../config/problems.ts'
import { SourceProblems } from '../../../sources/problems.ts'
import type { RouteOption } from '../../../domain/route.ts'
import type { SourceMapping } from '../../../domain/mapping.ts'
import type { Actor, AuditAction } from '../../../store/audit.ts'
import type { Database } from '../../../store/open.ts'
import { html, type Html, type HtmlPart } from '../html.ts'

/** Which rows a run or its preview is about. */
export interface DashboardPass {
  readonly sources: readonly string[]
  readonly limit: number | null
  readonly budget: LookupBudget
  readonly where: string | null
  readonly route: RouteOption
  readonly signal: AbortSignal
}

/** What the actions use of the loaded configuration. */
export interface DashboardApp {
  /** Whether lookups can be submitted in bulk, and if not, what would make it possible. */
  readonly bulk: { readonly isPossible: boolean; readonly todo: string | null }
  readonly defaults: {
    readonly budget: LookupBudget | null
    /** Whether a run may have a condition in SQL. */
    readonly allowsWhere: boolean
  }
  /** The service that requested runs call; 0 if this process calls none. */
  readonly service: () => Promise<number>
  /** @throws ConfigProblems if the configuration has no such source, or the condition is invalid */
  readonly validate: (pass: DashboardPass) => Promise<unknown>
  readonly plan: (pass: DashboardPass) => Promise<Plan>
  readonly undo: (options: UndoOptions) => Promise<UndoReport>
  /** Erases what is stored of the rows that a source's table no longer has. */
  readonly forgetDeleted: (
    source: string,
    options: { readonly dryRun: boolean; readonly signal: AbortSignal },
  ) => Promise<ForgetDeletedReport>
  readonly retry: (
    options: Omit<RetryOptions, 'sources'> & { readonly sources: readonly string[] },
  ) => Promise<RetryReport>
}

export interface ActionDeps {
  readonly db: Database
  readonly sources: () => ReadonlyMap<string, SourceMapping>
  /** Null while no configuration is loaded. */
  readonly app: () => DashboardApp | null
  /** Drops remembered data, so that the next page shows the change. */
  readonly onChanged: () => void
  readonly send: (
    request: FastifyRequest,
    reply: FastifyReply,
    page: { readonly title: string; readonly refreshSeconds?: number },
    body: HtmlPart,
  ) => FastifyReply
}

/** A request for the confirmation of an action, or for the action itself: both have the same address. */
export interface ActionRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Fields of the confirmation page. */
  readonly form: Readonly<Record<string, string>>
  readonly url: string
  /** Identifies the form: sent twice, it acts once. */
  readonly id: string
  readonly actor: Actor
}

/** The page that confirms an action: what it does, and its button. */
export interface Confirmation {
  readonly title: string
  readonly body: HtmlPart
  /** Further inputs of the form. */
  readonly fields?: HtmlPart
  /** The text of the button; null: there is nothing to do, and the body says why. */
  readonly button: string | null
  readonly isDangerous?: boolean
  /** Where the link beside the button leads. */
  readonly backUrl: string
  /** The body has cards of its own. */
  readonly isWide?: boolean
}

/** Something that an operator changes: confirmed on a page of its own, then done once. */
export interface DashboardAction {
  readonly path: string
  readonly confirm: (request: ActionRequest) => Promise<Confirmation>
  /** @returns the path of the page that shows the result */
  readonly perform: (request: ActionRequest) => Promise<string>
}

/** What was requested is impossible, and a page says why. */
export class ActionRefused extends FillrateError {
  override readonly name = 'ActionRefused'
  readonly status: number
  readonly title: string
  readonly body: HtmlPart
  /** The body has its own heading and its own way back, such as a form to correct. */
  readonly isWholePage: boolean

  constructor(
    status: number,
    title: string,
    body: HtmlPart,
    { isWholePage = false }: { readonly isWholePage?: boolean } = {},
  ) {
    super(title)
    this.status = status
    this.title = title
    this.body = body
    this.isWholePage = isWholePage
  }
}

/** Registers the two routes of an action. Access control has passed; readers are turned away here. */
export function registerAction(server: FastifyInstance, deps: ActionDeps, action: DashboardAction): void {
  server.get(action.path, operatorOnly(deps), async (request, reply) => {
    const { title, ...page } = await action.confirm(toActionRequest(request))
    return deps.send(request, reply, { title }, confirmationPage(title, page, request))
  })
  server.post(action.path, operatorOnly(deps), async (request, reply) => {
    const location = await action.perform(toActionRequest(request))
    deps.onChanged()
    return reply.redirect(location, 303)
  })
}

/** Route options: denies readers, and shows problems of the request as a page. */
export const operatorOnly = (deps: Pick<ActionDeps, 'send'>) => ({
  ...refusalPages(deps),
  preHandler: async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> =>
    request.access?.isOperator === true
      ? undefined
      : deps.send(
          request,
          reply.code(403),
          { title: 'Read-only' },
          html`<h1>Read-only</h1>
            <p>Your token only reads. Changes need a token of <code>FILLRATE_DASHBOARD_TOKEN</code>.</p>
            <p><a class="button" href="/">Back to the dashboard</a></p>`,
        ),
})

/** Route options: shows problems of the request as a page. */
export const refusalPages = (deps: Pick<ActionDeps, 'send'>) => ({
  errorHandler: async (error: Error, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const refused = toRefusal(error)
    if (refused === null) throw error
    return deps.send(
      request,
      reply.code(refused.status),
      { title: refused.title },
      refused.isWholePage
        ? refused.body
        : html`<h1>${refused.title}</h1>
            ${refused.body}
            <p><a class="button" href="/">Back to the dashboard</a></p>`,
    )
  },
})

function toRefusal(error: Error): ActionRefused | null {
  if (error instanceof ActionRefused) return error
  if (!(error instanceof ConfigProblems || error instanceof SourceProblems)) return null
  return new ActionRefused(
    409,
    'Not possible',
    error.problems.map(
      ({ place, found, expected, todo }) =>
        html`<p class="fault">${place}: ${found}. Expected: ${expected}. ${todo}</p>`,
    ),
  )
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export function toActionRequest(request: FastifyRequest): ActionRequest {
  const fields = Object.entries((request.body ?? {}) as Record<string, unknown>)
  const form = Object.fromEntries(
    fields.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
  const { access } = request
  return {
    params: request.params as Record<string, string>,
    query: new URL(request.url, 'http://localhost').searchParams,
    form,
    url: request.url,
    // A program with a bearer token needs no form.
    id: UUID.test(form['request_id'] ?? '') ? (form['request_id'] ?? '') : randomUUID(),
    actor: { name: access?.name ?? 'unknown', origin: 'dashboard' },
  }
}

function confirmationPage(
  title: string,
  { body, fields, button, isDangerous, backUrl, isWide }: Omit<Confirmation, 'title'>,
  request: FastifyRequest,
): Html {
  const content = [
    body,
    button === null
      ? html`<p class="choices"><a class="button" href="${backUrl}">Back</a></p>`
      : html`<form class="confirm" method="post" action="${request.url}">
          <input type="hidden" name="form_token" value="${request.access?.formToken}" />
          <input type="hidden" name="request_id" value="${randomUUID()}" />
          ${fields}
          <p class="choices">
            <button class="${isDangerous === true ? 'danger' : ''}">${button}</button>
            <a class="button" href="${backUrl}">${isWide === true ? 'Change it' : 'Back'}</a>
          </p>
        </form>`,
  ]
  return html`<h1>${title}</h1>
    ${isWide === true ? content : html`<section class="card confirmation">${content}</section>`}`
}

/** Does an action, recorded in the audit list under the form's id. Not again if the form was sent before. */
export async function perform<Result>(
  { db }: Pick<ActionDeps, 'db'>,
  { actor, id }: ActionRequest,
  event: {
    readonly action: AuditAction
    readonly parameters: Readonly<Record<string, unknown>>
    readonly run?: number
  },
  act: () => Promise<Result>,
  describe: (result: Result) => AuditEnd,
): Promise<Result | null> {
  return auditActionOnce(db, { actor, requestId: id, ...event }, act, describe)
}

/** @throws ActionRefused while no configuration is loaded */
export function requireApp({ app }: Pick<ActionDeps, 'app'>): DashboardApp {
  const loaded = app()
  if (loaded !== null) return loaded
  throw new ActionRefused(
    503,
    'Not ready',
    html`<p>No configuration is loaded yet. <a href="/readyz">/readyz</a> says why.</p>`,
  )
}

/** @returns the name of the source that the request is about. @throws ActionRefused if it is not configured */
export function requireSource({ sources }: ActionDeps, { params }: ActionRequest): string {
  const source = params['source'] ?? ''
  if (sources().has(source)) return source
  throw new ActionRefused(404, 'No such source', html`<p>The configuration has no source ${source}.</p>`)
}

/** @throws ActionRefused if it is not the number of a run */
export function parseRunId(text: string | undefined): number {
  const id = Number(text)
  if (Number.isSafeInteger(id) && id > 0) return id
  throw new ActionRefused(404, 'No such run', html`<p>There is no run ${text}.</p>`)
}

/** How long a page works on a preview before it shows what it has, in milliseconds. */
export const PREVIEW_TIMEOUT_MS = 8_000
