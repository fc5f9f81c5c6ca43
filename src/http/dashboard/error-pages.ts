import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { DatabaseOutage } from '../../domain/condition.ts'
import { errorBody, withCode } from './components.ts'
import { html, type HtmlPart } from './html.ts'
import { renderPage, SECURITY_HEADERS } from './layout.ts'
import { describeOutage } from './pages/verdict.ts'

const acceptsHtml = (request: FastifyRequest): boolean => (request.headers.accept ?? '').includes('text/html')

/** Sends an error as a page to a browser, and as JSON to a program. */
export function sendErrorPage(
  request: FastifyRequest,
  reply: FastifyReply,
  error: {
    readonly status: number
    readonly title: string
    readonly reason: string
    /** What to do about it. */
    readonly advice?: HtmlPart
    /** The page loads again by itself: the reason may pass. */
    readonly isRetried?: boolean
  },
): FastifyReply {
  const { status, title, reason, advice = null, isRetried = false } = error
  reply.code(status)
  if (!acceptsHtml(request)) return reply.send({ error: reason })
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) reply.header(name, value)
  const body = errorBody(
    title,
    html`<p>${reason}</p>
      ${advice}`,
    isRetried ? request.url : null,
  )
  return reply
    .type('text/html; charset=utf-8')
    .header('cache-control', 'no-store')
    .send(renderPage({ title, isLive: isRetried }, body))
}

/** A page that failed: what is wrong as far as it is known, and what to do. @param own what the process knows to be wrong */
export function sendFailure(
  request: FastifyRequest,
  reply: FastifyReply,
  error: Error,
  outage: DatabaseOutage | null,
): FastifyReply {
  const { statusCode = 503 } = error as { statusCode?: number }
  if (statusCode < 500)
    return sendErrorPage(request, reply, {
      status: statusCode,
      title: 'Request rejected',
      reason: error.message,
    })
  const { title, meaning, mend } = describeOutage(error, outage, Date.now()) ?? {
    title: 'This page cannot be shown',
    meaning: 'Its data could not be read.',
    mend: 'The log of this process has the reason, with the code `page_failed`.',
  }
  return sendErrorPage(request, reply, {
    status: 503,
    title,
    reason: acceptsHtml(request) ? meaning : `${title}. ${meaning}`,
    advice: html`<p>
      <b>What to do:</b> ${withCode(mend)} <a href="/readyz">/readyz</a> says what this process can do.
    </p>`,
    isRetried: true,
  })
}

/** Answers requests for addresses that no page has. */
export function registerNotFound(server: FastifyInstance): void {
  server.setNotFoundHandler((request, reply) => {
    const [path = ''] = request.url.split('?')
    const reason = `There is no page at ${path.slice(0, 200)}.`
    return sendErrorPage(request, reply, { status: 404, title: 'Page not found', reason })
  })
}
