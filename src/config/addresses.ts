import type { Read } from './env-value.ts'
import { quote } from './show.ts'

const expectedDatabase = "a URL such as 'postgres://user:password@localhost:5432/crm'"

/** A Postgres URL, as it is. What is wrong with one is told without showing it, since it holds a password. */
export function readDatabaseUrl(text: string): Read<string> {
  const refuse = (found: string, todo?: string): Read<string> => ({
    ok: false,
    found: `${found} (not shown: it may hold a password)`,
    expected: expectedDatabase,
    ...(todo === undefined ? {} : { todo }),
  })
  const encode =
    'In the user name and the password, write @ as %40, : as %3A, / as %2F, # as %23, ? as %3F and % as %25.'
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase()
  if (scheme === undefined) return refuse('a text that is not a URL')
  if (scheme !== 'postgres' && scheme !== 'postgresql') return refuse(`a ${scheme}:// URL`)
  const url = URL.parse(text)
  if (url === null || /\s/.test(text)) return refuse('a URL that cannot be read', encode)
  // The first / ? or # ends the host, so an unescaped one in the password leaves its @ behind.
  if (/@/.test(url.pathname) || url.hash !== '' || /^\?[^=]*@/.test(url.search)) {
    return refuse('a URL whose password seems to hold a /, ? or #', encode)
  }
  return { ok: true, value: text }
}

interface Address {
  readonly of: 'service' | 'receiver'
  /** A path that Fillrate adds itself. */
  readonly leaveOff: string
}

/** An http or https URL, without a slash at its end. */
export function readAddress(text: string, { of, leaveOff }: Address): Read<string> {
  const example = of === 'service' ? 'https://api.example.com' : 'https://fillrate.example.com'
  const refuse = (found: string, todo?: string): Read<string> => ({
    ok: false,
    found,
    expected: `the ${of}'s http or https URL, such as '${example}'`,
    ...(todo === undefined ? {} : { todo }),
  })
  const url = URL.parse(text)
  if (url !== null && (url.username !== '' || url.password !== '')) {
    return refuse(
      'a URL with a user name or a password (not shown)',
      'Leave them out; a key goes into FILLRATE_API_KEY.',
    )
  }
  if (url !== null && (url.search !== '' || url.hash !== '')) {
    const todo =
      of === 'service'
        ? 'Leave it out; a key goes into FILLRATE_API_KEY, with FILLRATE_AUTH=query.'
        : 'Leave it out.'
    return refuse('a URL with a query or a fragment (not shown: it may hold a key)', todo)
  }
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return refuse(
      quote(text),
      /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? undefined : 'Start it with https:// or http://.',
    )
  }
  const address = url.href.replace(/\/+$/, '')
  if (address.endsWith(leaveOff))
    return refuse(quote(text), `Leave ${leaveOff} off: it is added to every address.`)
  return { ok: true, value: address }
}

/** An http or https URL that may be a secret itself, as Slack's are: as it is, and never shown. */
export function readSecretAddress(text: string): Read<string> {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol)) return { ok: true, value: url.href }
  return {
    ok: false,
    found: 'a text that is no http or https URL (not shown: it may be a secret)',
    expected: "an http or https URL, such as 'https://ops.example.com/fillrate'",
  }
}

/** The address of a proxy, which may hold a password. Without a scheme it is one of http, as everywhere. */
export function readProxy(text: string): Read<string> {
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`)
  if (url !== null && /^https?:$/.test(url.protocol)) return { ok: true, value: url.href }
  return {
    ok: false,
    found: 'a text that is no http or https URL (not shown: it may hold a password)',
    expected: "the address of an HTTP proxy, such as 'http://proxy.example.com:3128'",
  }
}
