import { Actions, type OpenedConfig } from '../actions/actions.ts'
import type { Notifier } from './notifier.ts'
import type { OwnTroubles } from './own-troubles.ts'
import type { Receiver } from '../http/receiver.ts'
import { registerService } from '../pipeline/deps.ts'
import { createSlots, type PrioritySemaphore } from '../pipeline/look-up/slots.ts'
import { LeaderElector } from '../runs/leader.ts'
import type { RunDeps } from '../runs/run-part.ts'
import { Breaker } from '../service/breaker.ts'
import { UnauthorizedError } from '../service/errors.ts'
import { toJobAddress } from '../webhook/address.ts'

/** A service of an open configuration, with what its runs share in this process. */
export class ServiceView extends Actions {
  readonly #own: OwnTroubles
  /** One for all runs of the process, since it reflects the state of the service. */
  readonly #breaker = new Breaker()
  readonly #slots: PrioritySemaphore

  constructor(opened: OpenedConfig, own: OwnTroubles) {
    super(opened)
    const { config } = opened
    this.#own = own
    this.#slots = createSlots(config.service.concurrency, Object.values(config.sources))
  }

  /**
   * What runs of this service need of their process.
   * @throws ConfigProblems if the service's URL or its key is missing
   */
  async createRunDeps(
    receiver: Pick<Receiver, 'publicUrl'> | null,
    notifier: Pick<Notifier, 'recordRun'>,
  ): Promise<RunDeps> {
    const { config, db, log, owner } = this.opened
    const own = this.#own
    const breaker = this.#breaker
    return {
      ...this.base,
      serviceName: config.serviceName,
      ...(config.serviceName !== null && {
        serviceBudget: config.budget,
      }),
      service: await registerService(this.base, this.address, config.serviceName),
      client: this.openClient(),
      breaker,
      slots: this.#slots,
      onUnauthorized: (error) => {
        // Without a reason: the key was rejected before, and no call was made.
        if (error instanceof UnauthorizedError)
          own.raise('key_refused', this.scope ?? '', error.reason === null ? {} : { reason: error.reason })
      },
      keyAccepted: own.keyAccepted,
      describeOutage: () => own.describeOutage(),
      recordRun: (tx, report, run) => notifier.recordRun(tx, report, run),
      webhookUrl:
        receiver &&
        ((job) =>
          toJobAddress(
            {
              publicUrl: receiver.publicUrl,
              service: config.serviceName,
              job,
              secrets: this.opened.environment.webhookSecrets,
            },
            config.adapter,
          )),
      elector: new LeaderElector({
        db,
        scope: () => this.scope ?? '',
        owner,
        log,
        reserve: config.service.reserve,
        documented: config.adapter.rateLimits,
        breaker,
      }),
    }
  }
}
