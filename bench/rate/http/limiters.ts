import type { IncomingMessage, ServerResponse } from 'node:http'
import { rateLimit } from 'express-rate-limit'
import { TokenBucket } from 'limiter'
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { InMemoryRateLimiter } from 'rolling-rate-limiter'

/** Limiters from npm, as a service puts them before its endpoints. */
const limiterNames = [
  'express-rate-limit',
  'rate-limiter-flexible',
  'rolling-rate-limiter',
  'limiter',
] as const
export type LimiterName = (typeof limiterNames)[number]

export const kinds: Readonly<Record<LimiterName, string>> = {
  'express-rate-limit': 'windows that the first request starts, `legacyHeaders`, Reset rounded up',
  'rate-limiter-flexible': 'windows that the first request starts, Reset rounded up',
  'rolling-rate-limiter': 'a sliding log, Reset rounded up',
  limiter: 'a token bucket, Reset rounded up',
}

export const hasWindows = (name: LimiterName): boolean =>
  name === 'express-rate-limit' || name === 'rate-limiter-flexible'

interface Passed {
  readonly accepted: boolean
  /** A fixed window's end in milliseconds since the epoch; 0 if there are none. */
  readonly windowEnd: number
}

/** Counts a call, sets the rate headers on its answer, and returns whether it may pass. */
export type Limited = (request: IncomingMessage, response: ServerResponse) => Promise<Passed>

export function createLimited(name: LimiterName, limit: number, windowMs: number): Limited {
  switch (name) {
    case 'express-rate-limit':
      return express(limit, windowMs)
    case 'rate-limiter-flexible':
      return flexible(limit, windowMs)
    case 'rolling-rate-limiter':
      return rolling(limit, windowMs)
    case 'limiter':
      return bucket(limit, windowMs)
  }
}

function express(limit: number, windowMs: number): Limited {
  let isAccepted = true
  const middleware = rateLimit({
    limit,
    windowMs,
    legacyHeaders: true,
    standardHeaders: false,
    validate: false,
    keyGenerator: () => 'the key',
    handler: (_request, _response, next) => {
      isAccepted = false
      next()
    },
  })
  return async (request, response) => {
    isAccepted = true
    // It uses nothing of express but these two.
    await middleware(request as never, response as never, () => {})
    const { rateLimit: info } = request as unknown as { rateLimit: { resetTime: Date } }
    return { accepted: isAccepted, windowEnd: info.resetTime.getTime() }
  }
}

function flexible(limit: number, windowMs: number): Limited {
  const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1000 })
  return async (_request, response) => {
    const result = await limiter.consume('the key').catch((rejection: unknown) => {
      if (rejection instanceof RateLimiterRes) return rejection
      throw rejection
    })
    tell(response, limit, result.remainingPoints, result.msBeforeNext)
    return {
      accepted: result.consumedPoints <= limit,
      windowEnd: Date.now() + result.msBeforeNext,
    }
  }
}

function rolling(limit: number, windowMs: number): Limited {
  const limiter = new InMemoryRateLimiter({ interval: windowMs, maxInInterval: limit })
  return async (_request, response) => {
    // It counts refused calls too, and would refuse a client that keeps calling for ever, so this is checked first.
    const would = await limiter.wouldLimitWithInfo('the key')
    const result = would.blocked ? would : await limiter.limitWithInfo('the key')
    tell(response, limit, result.blocked ? 0 : result.actionsRemaining, result.millisecondsUntilAllowed)
    return { accepted: !result.blocked, windowEnd: 0 }
  }
}

function bucket(limit: number, windowMs: number): Limited {
  const tokens = new TokenBucket({ bucketSize: limit, tokensPerInterval: limit, interval: windowMs })
  tokens.content = limit
  return (_request, response) => {
    const accepted = tokens.tryRemoveTokens(1)
    tell(response, limit, Math.floor(tokens.content), ((limit - tokens.content) * windowMs) / limit)
    return Promise.resolve({ accepted, windowEnd: 0 })
  }
}

function tell(response: ServerResponse, limit: number, remaining: number, resetInMs: number): void {
  response.setHeader('X-RateLimit-Limit', limit)
  response.setHeader('X-RateLimit-Remaining', Math.max(0, remaining))
  response.setHeader('X-RateLimit-Reset', Math.ceil((Date.now() + resetInMs) / 1000))
  if (remaining <= 0) response.setHeader('Retry-After', Math.max(1, Math.ceil(resetInMs / 1000)))
}
