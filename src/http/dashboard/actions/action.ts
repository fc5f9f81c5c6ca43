import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Actor } from '../../../store/audit.ts'
import type { Actions } from '../../../actions/actions.ts'
import { refused, toPageRequest, type DashboardDeps, type PageRequest, type View } from '../page.ts'
import { html, type HtmlPart } from '../html.ts'

/** A request for the confirmation of an action, or for the action itself: both have the same address. */
export interface ActionRequest extends PageRequest {
  /** Fields of the confirmation page. */
  readonly form: Readonly<Record<string, string>>
  /** Identifies the form: sent twice, it acts once. */
  readonly requestId: string
  readonly actor: Actor
}

/** The page that confirms an action: what it does, and its button. */
interface Confirmation {
  readonly title: string
  readonly body: HtmlPart
  /** Further inputs of the form. */
  readonly fields?: HtmlPart
  /** The text of the button; null: there is nothing to do, and the body says why. */
  readonly button: string | null
  readonly isDangerous?: boolean
  /** The body has cards of its own. */
  readonly isWide?: boolean
}

/** Something that an operator changes: confirmed on a page of its own, then done once. `pages.ts` lists them all. */
export interface Action {
  readonly path: string
  readonly confirm: (request: FastifyRequest, deps: DashboardDeps) => Promise<View>
  /** @returns the page that shows the result */
  readonly perform: (request: FastifyRequest, deps: DashboardDeps) => Promise<string>
}

/** Declares an action, which has one address: GET confirms it, POST does it. */
export function defineAction<Subject>({
  path,
  find,
  pageOf,
  confirm,
  perform,
}: {
  readonly path: string
  /** What it is about. @throws PageRefused if there is no such thing */
  readonly find: (request: ActionRequest, deps: DashboardDeps) => Subject | Promise<Subject>
  /** Where the confirmation leads back to, and where the result is shown. */
  readonly pageOf: (subject: Subject, request: ActionRequest) => string
  readonly confirm: (subject: Subject, deps: DashboardDeps) => Confirmation | Promise<Confirmation>
  /** @returns the page of the result, if it is another one */
  readonly perform: (subject: Subject, request: ActionRequest, deps: DashboardDeps) => Promise<unknown>
}): Action {
  return {
    path,
    confirm: async (request, deps) => {
      const given = toActionRequest(request)
      const subject = await find(given, deps)
      return confirmationView(await confirm(subject, deps), pageOf(subject, given), request)
    },
    perform: async (request, deps) => {
      const given = toActionRequest(request)
      const subject = await find(given, deps)
      const result = await perform(subject, given, deps)
      return typeof result === 'string' ? result : pageOf(subject, given)
    },
  }
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

function toActionRequest(request: FastifyRequest): ActionRequest {
  const fields = Object.entries((request.body ?? {}) as Record<string, unknown>)
  const form = Object.fromEntries(
    fields.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
  const { request_id: requestId = '' } = form
  return {
    ...toPageRequest(request),
    form,
    // A program with a bearer token needs no form.
    requestId: UUID.test(requestId) ? requestId : randomUUID(),
    actor: { name: request.access?.name ?? 'unknown', origin: 'dashboard' },
  }
}

function confirmationView(
  { title, body, fields, button, isDangerous = false, isWide = false }: Confirmation,
  backUrl: string,
  request: FastifyRequest,
): View {
  const content = [
    body,
    button === null
      ? html`<p class="choices"><a class="button" href="${backUrl}">Back</a></p>`
      : html`<form class="confirm" method="post" action="${request.url}">
          <input type="hidden" name="request_id" value="${randomUUID()}" />
          ${fields}
          <p class="choices">
            <button class="${isDangerous ? 'danger' : ''}">${button}</button>
            <a class="button" href="${backUrl}">${isWide ? 'Change it' : 'Back'}</a>
          </p>
        </form>`,
  ]
  return {
    title,
    body: html`<h1>${title}</h1>
      ${isWide ? content : html`<section class="card confirmation">${content}</section>`}`,
  }
}

/** @throws PageRefused while no configuration is loaded */
export function requireApp({ app }: Pick<DashboardDeps, 'app'>): Actions {
  const loaded = app()
  if (loaded !== null) return loaded
  throw refused(
    503,
    'Not ready',
    html`<p>No configuration is loaded yet. <a href="/readyz">/readyz</a> says why.</p>`,
  )
}

/** How long a page works on a preview before it shows what it has, in milliseconds. */
const PREVIEW_TIMEOUT_MS = 8_000

export const previewSignal = (): AbortSignal => AbortSignal.timeout(PREVIEW_TIMEOUT_MS)

/** What a preview finds; null if that takes too long for a page. */
export async function previewWithin<Found>(
  preview: (signal: AbortSignal) => Promise<Found>,
): Promise<Found | null> {
  const signal = previewSignal()
  try {
    return await preview(signal)
  } catch (error) {
    if (signal.aborted) return null
    throw error
  }
}
