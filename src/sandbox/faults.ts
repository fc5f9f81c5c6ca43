import { type MsRange, type Rng, createRng, drawMs } from './rng.ts'

/** The endpoints of docs/service-interface.md. */
export const ENDPOINTS = [
  'POST /v1/person/enrich',
  'POST /v1/person',
  'GET /v1/company/enrich',
  'POST /v1/person/bulk',
] as const
export type SandboxEndpoint = (typeof ENDPOINTS)[number]

/** Every fault that can be enabled, and its effect. */
export const FAULT_MEANINGS = {
  '500': 'the call is answered 500',
  '503': 'the call is answered 503',
  'drop-after': 'the connection is dropped after the call was counted and processed; the answer is lost',
  '504': 'a gateway answers 504 after the call was counted and processed',
  'not-a-record': 'a single lookup is answered 200 with something that is not a record',
  '202': 'a single lookup is answered 202 and becomes a job of one',
  lost: 'the delivery is never sent',
  early: 'the delivery comes before the 202 is answered',
  duplicate: 'the delivery comes twice, with one event_id',
  progress: 'a delivery with the status processing and no results comes first',
  'in-parts': 'the results of a job come in two deliveries',
  'bad-signature': 'the delivery comes with a wrong signature first, then correctly signed',
  'job-failed': 'the job fails',
  'missing-result': 'an input of a job has no result',
  'foreign-result': 'a job has results for inputs that it did not contain',
  shuffle: 'the results of a job are in another order than the inputs',
} as const

export type FaultName = keyof typeof FAULT_MEANINGS

/** The share of opportunities (0 to 1) at which each fault is injected; absent means never. */
export type FaultShares = Readonly<Partial<Record<FaultName, number>>>

/** An opportunity for a fault: one call, one job, or one input of a job. */
export interface FaultPoint {
  readonly endpoint: SandboxEndpoint
  /** Canonical inputs: all emails of a bulk call, a single one for 'missing-result'. */
  readonly inputs: readonly string[]
  /** How often this was tried before, so that a retry draws again. */
  readonly nth: number
}

/** Overrides the shares: true injects the fault, false does not, undefined leaves it to its share. */
export type FaultPlan = (fault: FaultName, point: FaultPoint) => boolean | undefined

interface FaultSettings {
  readonly seed: number
  readonly faults: FaultShares
  readonly plan: FaultPlan | null
}

export const FAULT_NAMES = Object.keys(FAULT_MEANINGS) as readonly FaultName[]

const isFaultName = (name: string): name is FaultName => Object.hasOwn(FAULT_MEANINGS, name)

const toKey = ({ nth, endpoint, inputs }: FaultPoint): string => `${nth} ${endpoint} ${inputs[0] ?? ''}`

/** Whether the fault is injected here: by the plan, else by a draw that the seed determines. */
export function isFaultInjected(fault: FaultName, point: FaultPoint, settings: FaultSettings): boolean {
  const planned = settings.plan?.(fault, point)
  if (planned !== undefined) return planned
  const share = settings.faults[fault] ?? 0
  return share > 0 && createRng(settings.seed, `${fault} ${toKey(point)}`).below(share)
}

/** A fault point of a running sandbox: the faults injected there, which it counts, and draws of its own. */
export class Opportunity {
  readonly point: FaultPoint
  /** Different for each opportunity, and the same in every run. */
  readonly key: string
  readonly #settings: () => FaultSettings
  readonly #count: (fault: FaultName) => void

  constructor(point: FaultPoint, settings: () => FaultSettings, count: (fault: FaultName) => void) {
    this.point = point
    this.key = toKey(point)
    this.#settings = settings
    this.#count = count
  }

  injects(fault: FaultName): boolean {
    const isInjected = isFaultInjected(fault, this.point, this.#settings())
    if (isInjected) this.#count(fault)
    return isInjected
  }

  draw(what: string): Rng {
    return createRng(this.#settings().seed, `${what} ${this.key}`)
  }

  drawMs(range: MsRange, what: string): number {
    return drawMs(range, this.#settings().seed, `${what} ${this.key}`)
  }

  /** The same for one input of a job. */
  ofInput(key: string): Opportunity {
    return new Opportunity({ ...this.point, inputs: [key] }, this.#settings, this.#count)
  }
}

/** `0.05` or `5%`; undefined: neither. */
export function parseShare(text: string): number | undefined {
  const match = /^(\d*\.?\d+)(%?)$/.exec(text)
  if (match === null) return undefined
  const share = Number(match[1]) / (match[2] === '%' ? 100 : 1)
  return share <= 1 ? share : undefined
}

/**
 * Parses faults as typed: `500=0.05,duplicate=10%`. Empty text means no faults.
 * @throws Error that names the part, what was found and what was expected
 */
export function parseFaults(text: string): FaultShares {
  const faults: Partial<Record<FaultName, number>> = {}
  for (const part of text.split(',').map((part) => part.trim())) {
    if (part === '' && text.trim() === '') continue
    const [name = '', value, ...rest] = part.split('=').map((side) => side.trim())
    if (!isFaultName(name)) {
      throw new Error(`Unknown fault '${name}' in '${part}'. The faults are: ${FAULT_NAMES.join(', ')}.`)
    }
    const share = value === undefined || rest.length > 0 ? undefined : parseShare(value)
    if (share === undefined) {
      throw new Error(
        `Fault '${name}' has no share that can be read in '${part}'. Write ${name}=0.05 or ${name}=5%, from 0 to 1.`,
      )
    }
    if (faults[name] !== undefined) throw new Error(`Fault '${name}' is given twice. Give it once.`)
    faults[name] = share
  }
  return faults
}
