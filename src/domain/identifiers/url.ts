/**
 * The parts of something that a person typed as a web address, with or without a scheme, split by hand:
 * `new URL` refuses `acme.com`, reads `acme.com:80` as the scheme `acme.com:`, and drops and decodes
 * characters that should make a value invalid.
 */
export interface UrlParts {
  readonly hasScheme: boolean
  /** The host, and a port or a user name where there is one: all up to the first `/`, `\`, `?` or `#`. */
  readonly authority: string
  /** From its first slash on, without query and fragment; `''` when there is none. */
  readonly path: string
}

/** Also `https:acme.com`, `http:/acme.com` and `//acme.com`. */
const scheme = /^(?:https?:[\\/]*|[a-z][a-z0-9+.-]{0,30}:\/\/|\/\/)/i

export function splitUrl(text: string): UrlParts {
  let rest = text
  // More than once: forms that put `https://` before whatever is pasted leave `https://https://acme.com`.
  for (let times = 0; times < 3; times++) rest = rest.replace(scheme, '')
  const end = rest.search(/[/\\?#]/)
  const authority = end === -1 ? rest : rest.slice(0, end)
  const tail = end === -1 ? '' : rest.slice(end)
  const query = tail.search(/[?#]/)
  return { hasScheme: rest !== text, authority, path: query === -1 ? tail : tail.slice(0, query) }
}

/** The authority without its port. */
export function withoutPort(authority: string): string {
  return authority.replace(/:\d{0,5}$/, '')
}
