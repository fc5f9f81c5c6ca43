/** How the key is shown to the service (interface document, Authentication 1 and 5). */
export type AuthStyle = 'bearer' | 'x-api-key' | 'basic' | 'query'

/** What a key adds to a request: a header, or a query parameter (ready to append, without `?` or `&`). */
export type Credential = { header: readonly [name: string, value: string] | null; query: string | null }

/** Both are secret: they go into the request and nowhere else. */
export function credentialFor(style: AuthStyle, key: string): Credential {
  switch (style) {
    case 'bearer':
      return { header: ['authorization', `Bearer ${key}`], query: null }
    case 'x-api-key':
      return { header: ['x-api-key', key], query: null }
    case 'basic':
      return { header: ['authorization', `Basic ${Buffer.from(`${key}:`).toString('base64')}`], query: null }
    case 'query':
      return { header: null, query: `api_key=${encodeURIComponent(key)}` }
  }
}
