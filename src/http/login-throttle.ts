import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIPv6 } from 'node:net'

/** Number of different wrong tokens after which a client is blocked, and for how long. */
const MAX_WRONG_TOKENS = 10
const BLOCK_MS = 60_000
/** Maximum number of tracked clients. An attacker with more addresses is stopped by the token's length alone. */
const MAX_CLIENTS = 10_000

interface FailedAttempts {
  /** The same wrong token again is not counted: it comes from a misconfigured program. */
  readonly tokens: Set<string>
  readonly since: number
  blockedUntil: number
}

/** Slows down token guessing, per client: a global limit would let any stranger lock out everyone. */
export class LoginThrottle {
  readonly #clients = new Map<string, FailedAttempts>()

  /** @returns milliseconds until this client may try again; 0 if it may now */
  waitMs(client: string | null, now: number): number {
    if (client === null) return 0
    return Math.max(0, (this.#clients.get(client)?.blockedUntil ?? 0) - now)
  }

  /** @returns whether this client is blocked from now on */
  recordFailure(client: string | null, guess: string, now: number): boolean {
    if (client === null) return false
    const before = this.#clients.get(client)
    const guesses =
      before !== undefined && now - before.since < BLOCK_MS
        ? before
        : { tokens: new Set<string>(), since: now, blockedUntil: 0 }
    this.#clients.delete(client)
    this.#clients.set(client, guesses)
    if (this.#clients.size > MAX_CLIENTS) this.#clients.delete(this.#clients.keys().next().value ?? '')
    guesses.tokens.add(guess)
    if (guesses.tokens.size < MAX_WRONG_TOKENS) return false
    guesses.blockedUntil = now + BLOCK_MS
    return true
  }
}

const PRIVATE_NETWORKS = new BlockList()
PRIVATE_NETWORKS.addSubnet('127.0.0.0', 8)
PRIVATE_NETWORKS.addSubnet('10.0.0.0', 8)
PRIVATE_NETWORKS.addSubnet('172.16.0.0', 12)
PRIVATE_NETWORKS.addSubnet('192.168.0.0', 16)
PRIVATE_NETWORKS.addSubnet('169.254.0.0', 16)
PRIVATE_NETWORKS.addSubnet('100.64.0.0', 10)
PRIVATE_NETWORKS.addAddress('::1', 'ipv6')
PRIVATE_NETWORKS.addSubnet('fc00::', 7, 'ipv6')
PRIVATE_NETWORKS.addSubnet('fe80::', 10, 'ipv6')

/**
 * Identifies a client. X-Forwarded-For is used only from this machine or a private network, where proxies are, and
 * only its last entry, which the nearest proxy wrote. The proxy's address is part of the identity, so that a forged
 * entry never equals another client. Null for a proxy that does not forward the client's address: blocking one of its
 * clients would block all, so only the token's length protects.
 */
export function clientAddress(
  peer: string,
  headers: IncomingHttpHeaders,
  { isBehindProxy }: { readonly isBehindProxy: boolean },
): string | null {
  const address = peer.replace(/^::ffff:(?=\d)/i, '')
  if (!PRIVATE_NETWORKS.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')) return address
  const forwarded = [headers['x-forwarded-for'] ?? headers['x-real-ip'] ?? []].flat().join(',')
  const last = forwarded.split(',').at(-1)?.trim() ?? ''
  if (last !== '') return `${last} by ${address}`
  return isBehindProxy ? null : address
}
