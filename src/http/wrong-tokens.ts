import { isIPv6 } from 'node:net'
import type { Log } from '../util/log.ts'

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

/** Bounds the guessing of tokens, per client: a global bound would let any stranger lock out everyone. */
export class WrongTokens {
  readonly #clients = new Map<string, FailedAttempts>()

  /** @returns milliseconds until this client may try again; 0 if it may now */
  waitMs(address: string, now: number): number {
    return Math.max(0, (this.#clients.get(toClient(address))?.blockedUntil ?? 0) - now)
  }

  /** @returns whether this client is blocked from now on */
  record(address: string, guess: string, now: number): boolean {
    const client = toClient(address)
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

export const logBlocked = (log: Log, from: string): void =>
  log.warn(
    { event: 'client_blocked', from },
    'too many wrong tokens: client blocked for a minute; if this address is a proxy of yours, name it in FILLRATE_TRUSTED_PROXIES',
  )

/** The address of a client, without its port, which some proxies forward. Of IPv6 the network, because a client has all 2^64 addresses of one. */
function toClient(address: string): string {
  const [, ipv6, ipv4] = /^(?:\[(.+)\]|([\d.]+))(?::\d+)?$/.exec(address) ?? []
  const mapped = (ipv6 ?? ipv4 ?? address).replace(/^::ffff:(?=\d+\.)/i, '')
  if (!isIPv6(mapped)) return mapped
  const [head = [], tail] = mapped.split('::').map((part) => part.split(':').filter((group) => group !== ''))
  const zeros = tail === undefined ? 0 : 8 - head.length - tail.length
  return [...head, ...Array<string>(zeros).fill('0'), ...(tail ?? [])].slice(0, 4).join(':')
}
