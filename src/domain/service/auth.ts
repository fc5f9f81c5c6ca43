/**
 * How an access token is had with the client's own credentials (RFC 6749, section 4.4). FILLRATE_API_KEY holds them as
 * `id:secret`; they are sent in the body, as `client_id` and `client_secret`. The token is kept in memory, replaced before it ends, and sent as `Authorization: Bearer TOKEN`.
 * @example
 * const auth: ServiceAuth = { oauth: { tokenUrl: '/oauth/token' } }
 */
export interface OAuthClient {
  /** An https address, or a path below the base URL. */
  readonly tokenUrl: string
}

/**
 * How the key is sent: `Authorization: Bearer KEY`, `Authorization: Basic base64(KEY:)`, a header of another name, or a
 * query parameter; or how it is exchanged for a token.
 * @example
 * const auth: ServiceAuth = { header: 'x-api-key' }
 */
export type ServiceAuth =
  | 'bearer'
  | 'basic'
  | { readonly header: string; readonly prefix?: string }
  | { readonly query: string }
  | { readonly oauth: OAuthClient }

/** Whether the key is exchanged for a token. */
export const isOAuth = (auth: ServiceAuth | string | null): auth is { readonly oauth: OAuthClient } =>
  typeof auth === 'object' && auth !== null && 'oauth' in auth

/** How the key is sent where the service leaves it open: the words of FILLRATE_AUTH. */
export const AUTH_STYLES = ['bearer', 'x-api-key', 'basic', 'query'] as const
export type AuthStyle = (typeof AUTH_STYLES)[number]
