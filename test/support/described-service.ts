import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import {
  type CannedAnswer,
  readRequest,
  type SentRequest,
  writeCaseAnswer,
} from '../../src/actions/service-cases.ts'
import { listenOnLoopback } from './loopback.ts'

/** A limit as a service documents it: so many calls in a window. What is above is refused, and does not count. */
export interface StatedWindow {
  readonly calls: number
  readonly ms: number
  /** Calls of this endpoint alone count, by the name that `endpointOf` gives it. Default: all together. */
  readonly endpoint?: string
  /**
   * `rolling`: in any span of that length, which is the strictest reading of a page that says no more. `fixed`: spans that
   * begin with the clock. Default: rolling.
   */
  readonly form?: 'rolling' | 'fixed'
}

/** Faults that are no part of a service's description: of twenty calls one has a 5xx, and one an error in a 200. */
interface InjectedFaults {
  /** In turn. The work is not done, and not billed. Default: 500 and 503. */
  readonly statuses?: readonly number[]
  /** The error in a 200, in the service's own form. Null: it has none for this request. */
  readonly inBody?: (request: SentRequest) => CannedAnswer | null
}

/** What a stand-in does with a call that is within the limits. */
export interface StandInPlay {
  readonly answer: (request: SentRequest, account: Account) => CannedAnswer | Promise<CannedAnswer>
  /** Names what is called. Null: what no limit counts, such as a request for a token. Default: method and path. */
  readonly endpointOf?: (request: SentRequest) => string | null
  readonly windows?: readonly StatedWindow[]
  /** The documented answer to a call too many. Default: a bare 429. */
  readonly refuse?: (request: SentRequest, window: StatedWindow) => CannedAnswer
  readonly faults?: InjectedFaults
  /** The credits of the account. Default: any number. */
  readonly balance?: number
  /** How long a call takes: from, to. Default: as long as it takes. */
  readonly latencyMs?: readonly [number, number]
}

/** The account that is billed. */
export interface Account {
  /** Bills credits for an input, in the service's own units. False: the account has too few, and nothing is billed. */
  bill(input: string, credits: number): boolean
  /** What is left. */
  balance(): number
  /** Credits come in, or go. */
  deposit(credits: number): void
}

/** A call as the service records it. */
interface RecordedCall {
  readonly endpoint: string
  /** In milliseconds, by a clock that no one sets. */
  readonly at: number
  readonly fate: 'answered' | Fault | 'refused'
}

/** An injected fault: a 5xx, or an error in a 200. */
type Fault = 'failed' | 'erred'

/** A stand-in of a described service, and its books. */
export interface StandIn {
  readonly url: string
  readonly account: Account
  /** Every limited call so far, in order. */
  readonly calls: readonly RecordedCall[]
  /** Each credit that was billed, by input. */
  readonly billed: ReadonlyMap<string, readonly number[]>
  /** Calls above a limit. */
  refused(): number
  /** Calls that an injected fault met. */
  faults(): Readonly<Record<Fault, number>>
  /** What was billed in all. */
  credits(): number
  /** What inputs were billed beyond their first time, in credits, and how often. */
  billedAgain(): { readonly times: number; readonly credits: number }
  /** Until so many calls have come in. */
  untilCalls(count: number): Promise<void>
}

/** A hundredth is the smallest part of a credit that a service bills. */
const sumCredits = (parts: readonly number[]): number =>
  parts.reduce((sum, credits) => sum + Math.round(credits * 100), 0) / 100

/** Starts a stand-in over HTTP, which stops when the test is over. */
export async function playDescribed(play: StandInPlay): Promise<StandIn> {
  const { endpointOf = ({ method, path }) => `${method} ${path}` } = play
  const windows = (play.windows ?? []).map((window) => ({ window, count: createCounter(window) }))
  const calls: RecordedCall[] = []
  const waiting = new Set<{ readonly count: number; readonly resolve: () => void }>()
  const record = (call: RecordedCall): void => {
    calls.push(call)
    for (const one of waiting) if (calls.length >= one.count) one.resolve()
  }
  const { account, billed } = openAccount(play.balance)
  const failNext = play.faults === undefined ? () => null : createFaults(play.faults)

  async function answer(request: SentRequest): Promise<CannedAnswer> {
    const endpoint = endpointOf(request)
    if (endpoint === null) return play.answer(request, account)
    const at = performance.now()
    const counted = windows.filter(({ window }) => (window.endpoint ?? endpoint) === endpoint)
    const full = counted.find(({ count }) => count.isFull(at))
    if (full !== undefined) {
      record({ endpoint, at, fate: 'refused' })
      return play.refuse?.(request, full.window) ?? { status: 429 }
    }
    for (const { count } of counted) count.add(at)
    const fault = failNext(request)
    record({ endpoint, at, fate: fault?.fate ?? 'answered' })
    const [from, to] = play.latencyMs ?? [0, 0]
    if (to > 0) await sleep(from + ((calls.length * 7) % (to - from + 1)))
    return fault?.answer ?? play.answer(request, account)
  }

  const server = createServer((request, response) => {
    void readRequest(request)
      .then(answer)
      .then((canned) => writeCaseAnswer(response, canned))
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  const count = (fate: RecordedCall['fate']): number => calls.filter((call) => call.fate === fate).length
  return {
    url,
    account,
    calls,
    billed,
    refused: () => count('refused'),
    faults: () => ({ failed: count('failed'), erred: count('erred') }),
    credits: () => sumCredits([...billed.values()].flat()),
    billedAgain: () => {
      const again = [...billed.values()].flatMap((parts) => parts.slice(1))
      return { times: again.length, credits: sumCredits(again) }
    },
    untilCalls: async (wanted) => {
      if (calls.length < wanted) await new Promise<void>((resolve) => waiting.add({ count: wanted, resolve }))
    },
  }
}

/** Counts the calls of a window. */
function createCounter({ calls, ms, form = 'rolling' }: StatedWindow) {
  let counted: number[] = []
  const isIn = (at: number, now: number): boolean =>
    form === 'rolling' ? at > now - ms : Math.floor(at / ms) === Math.floor(now / ms)
  return {
    isFull: (now: number): boolean => {
      counted = counted.filter((at) => isIn(at, now))
      return counted.length >= calls
    },
    add: (now: number): void => void counted.push(now),
  }
}

function openAccount(credits = Number.POSITIVE_INFINITY) {
  const billed = new Map<string, number[]>()
  let left = credits
  const account: Account = {
    bill: (input, price) => {
      if (price > left) return false
      left = sumCredits([left, -price])
      if (price > 0) billed.set(input, [...(billed.get(input) ?? []), price])
      return true
    },
    balance: () => left,
    deposit: (more) => void (left += more),
  }
  return { account, billed }
}

/** Of twenty calls the seventh and the fourteenth fail, but no request twice: then the next one does. */
function createFaults({ statuses = [500, 503], inBody }: InjectedFaults) {
  const met = new Set<string>()
  const due: Record<Fault, number> = { failed: 0, erred: 0 }
  let [calls, failed] = [0, 0]
  const choose = (request: SentRequest): { fate: Fault; answer: CannedAnswer } | null => {
    if (due.failed > 0)
      return {
        fate: 'failed',
        answer: { status: statuses[failed++ % statuses.length] ?? 500, body: { error: 'injected' } },
      }
    const answer = due.erred > 0 ? (inBody?.(request) ?? null) : null
    return answer === null ? null : { fate: 'erred', answer }
  }
  return (request: SentRequest): { fate: Fault; answer: CannedAnswer } | null => {
    calls++
    if (calls % 20 === 7) due.failed++
    if (calls % 20 === 14) due.erred++
    const { method, path, query, body } = request
    const text = JSON.stringify([method, path, query, body])
    const fault = met.has(text) ? null : choose(request)
    if (fault === null) return null
    met.add(text)
    due[fault.fate]--
    return fault
  }
}
