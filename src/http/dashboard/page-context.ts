import type { FastifyReply, FastifyRequest } from 'fastify'
import type { SpendSettings } from '../../actions/spend.ts'
import type { RowHistory } from '../../actions/explain/row-history.ts'
import type { ObserverOptions } from '../../domain/trouble-facts.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import type { Database } from '../../store/open.ts'
import type { Log } from '../../util/log.ts'
import type { DashboardApp } from './actions/action.ts'
import type { HtmlPart } from './html.ts'
import { type HtmlPageOptions, renderPage } from './layout.ts'

export interface PageRouteOptions {
  readonly db: Database
  /** The current sources: a daemon may reload its configuration. */
  readonly sources: () => ReadonlyMap<string, SourceMapping>
  readonly spendSettings: () => SpendSettings
  /** What this process knows of troubles, beside what is stored. */
  readonly observer: () => ObserverOptions
  readonly explain: (source: string, key: string) => Promise<RowHistory>
  /** What the actions use of the loaded configuration; null while none is loaded. */
  readonly app: () => DashboardApp | null
  readonly log: Log
  /** There is a token, so there is a session to sign out of. */
  readonly isSignedIn: boolean
}

/** Sends a page of the dashboard. */
export type SendPage = (
  request: FastifyRequest,
  reply: FastifyReply,
  about: Omit<HtmlPageOptions, 'signedInAs'>,
  body: HtmlPart,
) => FastifyReply

/** @param isSignedIn there is a token, so there is a session to sign out of */
export const createSend =
  (isSignedIn: boolean): SendPage =>
  (request, reply, about, body) =>
    reply
      .type('text/html; charset=utf-8')
      .send(renderPage({ signedInAs: isSignedIn ? (request.access?.name ?? null) : null, ...about }, body))

/** Whether the page may offer actions. */
export const canAct = (request: FastifyRequest): boolean => request.access?.isOperator === true
