import type { CalledEndpoint } from '../../domain/spend.ts'

/** What an answer states of the limit: calls a window, and how many of them are counted, this one included. */
export interface StatedUsage {
  readonly limit: number
  readonly used: number | null
}

/** How many calls were sent and completed when a call was sent: to its own endpoint, and in all. */
export interface CallPosition {
  readonly endpoint: CalledEndpoint | null
  readonly sentAt: number
  readonly ownCompleted: number
  readonly allCompleted: number
}

interface Answer extends StatedUsage {
  readonly position: CallPosition
  readonly receivedAt: number
}

interface EndpointAnswers {
  sent: number
  completed: number
  latest: Answer | null
  /** The answer with the endpoint's present limit before which the fewest calls of other endpoints were counted. */
  anchor: Answer | null
  /** Since then each answer that states a limit has stated the present one. */
  sameLimitSince: number
}

/** As many answers in a row must show the same: one may be another client's, or a limit that was cut and raised. */
const VOTES = 2

/**
 * Whether endpoints have limits of their own, or the account has one for all. Each answer is compared with an
 * earlier one of its endpoint, and with one of another endpoint that came before its call was sent:
 *
 * - One limit: its count rises by more than the calls of its endpoint.
 * - Separate limits: another endpoint stated another limit in between, or the calls of this endpoint explain its
 *   count, and all calls since the answer of the other endpoint do not.
 *
 * An answer that shows neither changes nothing.
 */
export class EndpointEvidence {
  readonly #endpoints = new Map<CalledEndpoint | null, EndpointAnswers>()
  #sent = 0
  #completed = 0
  /** Votes in a row: above 0 for limits of their own, below for one limit. */
  #votes = 0
  /** When the other endpoint's answer came that the latest vote was cast by. */
  #votedBy = Number.NEGATIVE_INFINITY

  get isOwn(): boolean {
    return this.#votes >= VOTES
  }

  get isShared(): boolean {
    return this.#votes <= -VOTES
  }

  /** Another endpoint is called: what was shown of others need not hold for it. */
  forget(): void {
    this.#votes = 0
  }

  onSent(endpoint: CalledEndpoint | null, sentAt: number): CallPosition {
    const own = this.#of(endpoint)
    const position = { endpoint, sentAt, ownCompleted: own.completed, allCompleted: this.#completed }
    own.sent++
    this.#sent++
    return position
  }

  /** A call was answered, or lost. @param stated null: the answer states no limit, or was refused */
  onCompleted(position: CallPosition, stated: StatedUsage | null, receivedAt: number): void {
    const own = this.#of(position.endpoint)
    own.completed++
    this.#completed++
    if (stated === null) return
    const answer = { ...stated, position, receivedAt }
    const { anchor } = own
    const other = this.#latestOther(position)
    const isComparable = anchor !== null && anchor.limit === answer.limit && isBefore(anchor, position)
    if (isComparable && other !== null) this.#compare(answer, anchor, other, own)
    if (anchor?.limit !== answer.limit) own.sameLimitSince = receivedAt
    if (anchor === null || anchor.limit !== answer.limit || countedOthers(answer) < countedOthers(anchor))
      own.anchor = answer
    if (own.latest === null || own.latest.position.sentAt <= position.sentAt) own.latest = answer
  }

  #compare(answer: Answer, anchor: Answer, other: Answer, own: EndpointAnswers): void {
    if (other.receivedAt <= this.#votedBy) return
    if (other.limit !== answer.limit) {
      if (own.sameLimitSince <= other.position.sentAt) this.#vote(1, other)
      return
    }
    if (answer.used === null || anchor.used === null || other.used === null) return
    const rise = answer.used - anchor.used
    const ownCalls = own.sent - anchor.position.ownCompleted - 1
    const allCalls = this.#sent - anchor.position.allCompleted - 1
    const sinceOther = this.#sent - other.position.allCompleted - 1
    if (rise > ownCalls && rise <= allCalls) {
      this.#vote(-1, other)
      own.anchor = answer
    } else if (rise >= 1 && rise <= ownCalls && answer.used - other.used > sinceOther) this.#vote(1, other)
  }

  #vote(vote: 1 | -1, other: Answer): void {
    this.#votes = Math.sign(this.#votes) === -vote ? vote : this.#votes + vote
    this.#votedBy = other.receivedAt
  }

  /** The latest answer of another endpoint that came before this call was sent. */
  #latestOther(position: CallPosition): Answer | null {
    let latest: Answer | null = null
    for (const [endpoint, { latest: answer }] of this.#endpoints)
      if (endpoint !== position.endpoint && answer !== null && isBefore(answer, position))
        if (latest === null || answer.receivedAt > latest.receivedAt) latest = answer
    return latest
  }

  #of(endpoint: CalledEndpoint | null): EndpointAnswers {
    const known = this.#endpoints.get(endpoint)
    if (known !== undefined) return known
    const added = { sent: 0, completed: 0, latest: null, anchor: null, sameLimitSince: 0 }
    this.#endpoints.set(endpoint, added)
    return added
  }
}

/** Calls of others that are counted with this one, less those of the endpoint that no window counts any more. */
const countedOthers = ({ used, position }: Answer): number =>
  used === null ? Number.POSITIVE_INFINITY : used - position.ownCompleted

/** An answer came before a call was sent. */
const isBefore = ({ receivedAt }: Answer, { sentAt }: CallPosition): boolean => receivedAt <= sentAt
