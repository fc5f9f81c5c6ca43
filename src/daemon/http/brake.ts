import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIPv6 } from 'node:net'

/** Different wrong tokens of one client before it has to wait, and how long. */
const GUESSES = 10
const PAUSE_MS = 60_000
/** Clients that are kept in mind. An attacker with more addresses than this is stopped by the token's length alone. */
const MOST_CLIENTS = 10_000

interface Guesses {
  /** The same wrong token again, from a program that is set up wrongly, is no further guess. */
  readonly different: Set<string>
  readonly since: number
  closedUntil: number
}

/** Slows down the guessing of tokens, each client by itself: one for all would let any stranger close the door to all. */
export class Brake {
  readonly #clients = new Map<string, Guesses>()

  /** @returns milliseconds until this client may try again; 0: now */
  wait(client: string | null, now: number): number {
    if (client === null) return 0
    return Math.max(0, (this.#clients.get(client)?.closedUntil ?? 0) - now)
  }

  /** @returns whether this client has to wait from now on */
  wrong(client: string | null, guess: string, now: number): boolean {
    if (client === null) return false
    const before = this.#clients.get(client)
    const guesses =
      before !== undefined && now - before.since < PAUSE_MS
        ? before
        : { different: new Set<string>(), since: now, closedUntil: 0 }
    this.#clients.delete(client)
    this.#clients.set(client, guesses)
    if (this.#clients.size > MOST_CLIENTS) this.#clients.delete(this.#clients.keys().next().value ?? '')
    guesses.different.add(guess)
    if (guesses.different.size < GUESSES) return false
    guesses.closedUntil = now + PAUSE_MS
    return true
  }
}

const NEAR = new BlockList()
NEAR.addSubnet('127.0.0.0', 8)
NEAR.addSubnet('10.0.0.0', 8)
NEAR.addSubnet('172.16.0.0', 12)
NEAR.addSubnet('192.168.0.0', 16)
NEAR.addSubnet('169.254.0.0', 16)
NEAR.addSubnet('100.64.0.0', 10)
NEAR.addAddress('::1', 'ipv6')
NEAR.addSubnet('fc00::', 7, 'ipv6')
NEAR.addSubnet('fe80::', 10, 'ipv6')

/**
 * Tells clients apart. What X-Forwarded-For says counts only from this machine or a private network, where proxies are,
 * and only its last entry, which the nearest proxy wrote; and beside the address of that proxy, so that an invented one
 * is never another client's. Null: a proxy that does not say for whom it asks. Its clients can't be told apart, and to
 * slow down one of them would be to close the door to all; the length of the token has to do.
 */
export function clientOf(
  peer: string,
  headers: IncomingHttpHeaders,
  { isBehindProxy }: { readonly isBehindProxy: boolean },
): string | null {
  const address = peer.replace(/^::ffff:(?=\d)/i, '')
  if (!NEAR.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')) return address
  const forwarded = [headers['x-forwarded-for'] ?? headers['x-real-ip'] ?? []].flat().join(',')
  const last = forwarded.split(',').at(-1)?.trim() ?? ''
  if (last !== '') return `${last} by ${address}`
  return isBehindProxy ? null : address
}
