import { request } from 'undici'
import type { DashboardToken } from '../../src/config/environment.ts'

export interface DashboardAnswer {
  readonly status: number
  readonly location: string | null
  readonly text: string
}

/** The header with which a browser sends a token, once its user has typed it. */
export const basicAuth = (secret: string, user = 'any'): string =>
  `Basic ${Buffer.from(`${user}:${secret}`).toString('base64')}`

/** A browser without a browser: it has a token, and sends the forms of the pages that it reads. */
export class DashboardClient {
  readonly #at: string
  readonly #authorization: string

  constructor(at: string, { secret }: DashboardToken) {
    this.#at = at
    this.#authorization = basicAuth(secret)
  }

  async get(path: string): Promise<DashboardAnswer> {
    return this.#send(path, { headers: { authorization: this.#authorization, accept: 'text/html' } })
  }

  /** The hidden fields of a page's form. */
  async readForm(path: string): Promise<Record<string, string>> {
    const { text } = await this.get(path)
    const fields = [...text.matchAll(/<input\s+type="hidden"\s+name="(\w+)"\s+value="([^"]*)"/g)]
    return Object.fromEntries(fields.map(([, name = '', value = '']) => [name, value]))
  }

  async post(
    path: string,
    fields: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>> = { origin: this.#at },
  ): Promise<DashboardAnswer> {
    return this.#send(path, {
      method: 'POST',
      body: new URLSearchParams({ ...fields }).toString(),
      headers: {
        authorization: this.#authorization,
        accept: 'text/html',
        'content-type': 'application/x-www-form-urlencoded',
        ...headers,
      },
    })
  }

  /** Confirms an action: sends the form of its own page. @returns where it leads */
  async confirm(path: string, fields: Readonly<Record<string, string>> = {}): Promise<string> {
    const answer = await this.post(path, { ...(await this.readForm(path)), ...fields })
    if (answer.status !== 303) throw new Error(`${path} was answered ${answer.status}: ${answer.text}`)
    return answer.location ?? ''
  }

  async #send(path: string, options: NonNullable<Parameters<typeof request>[1]>): Promise<DashboardAnswer> {
    const { statusCode, headers, body } = await request(this.#at + path, options)
    const location = headers['location']
    return {
      status: statusCode,
      location: typeof location === 'string' ? location : null,
      text: await body.text(),
    }
  }
}
