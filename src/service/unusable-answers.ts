import type { CallSubject } from './fault-history.ts'

interface EndpointEvidence {
  hasAnswered: boolean
  /** Inputs with an unusable answer since the endpoint last answered one. */
  refused: Set<CallSubject['id']>
}

/** Different inputs in a row that prove a wrong setting, before the endpoint has answered any, and after. */
const INPUTS_AT_FIRST = 3
const INPUTS_LATER = 10

/** What is at fault: the endpoint, so that every further call would fail in the same way, or this input. */
type UnusableVerdict = 'endpoint' | 'input' | 'unknown'

/**
 * Decides whether an answer such as a missing route, a redirect or a 402 is about the endpoint or about one input. An
 * endpoint that answers other inputs exists; if it answers several inputs in a row like this, a setting is wrong.
 */
export class UnusableAnswers {
  readonly #byEndpoint = {
    person: newEvidence(),
    company: newEvidence(),
    bulk: newEvidence(),
    companyBulk: newEvidence(),
  }

  recordAnswer(subject: CallSubject): void {
    Object.assign(this.#of(subject), { hasAnswered: true, refused: new Set() })
  }

  recordUnusable(subject: CallSubject): UnusableVerdict {
    const evidence = this.#of(subject)
    const { hasAnswered, refused } = evidence
    // Other inputs were answered after an earlier failure of this one, possibly in an earlier run.
    if (!hasAnswered && subject.attempts > 0) return 'input'
    // An input comes a second time before another one only if there is no other.
    const isAlone = !hasAnswered && refused.has(subject.id)
    refused.add(subject.id)
    if (isAlone || refused.size >= (hasAnswered ? INPUTS_LATER : INPUTS_AT_FIRST)) return 'endpoint'
    return hasAnswered ? 'input' : 'unknown'
  }

  #of({ kind }: CallSubject): EndpointEvidence {
    if (kind === 'bulk' || kind === 'companyBulk') return this.#byEndpoint[kind]
    return this.#byEndpoint[kind === 'domain' ? 'company' : 'person']
  }
}

const newEvidence = (): EndpointEvidence => ({ hasAnswered: false, refused: new Set() })
