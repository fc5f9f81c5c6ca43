import type { IncomingMessage, ServerResponse } from 'node:http'
import { sendResponse } from './responses.ts'
import { type MsRange, abortableDelay, drawMs } from './rng.ts'
import { type CallContext, decideCall } from './call-decision.ts'
import { faultPointKey } from './faults.ts'
import type { SandboxEndpoint, SandboxRequest } from './requests.ts'

/** One authenticated call with its body. */
export interface SandboxCall {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly endpoint: SandboxEndpoint
  readonly question: SandboxRequest
  readonly key: string
}

/**
 * Answers one call. It is decided on arrival (after `latencyBeforeMs`); only the answer is delayed. Calls are
 * therefore counted in the order in which they arrive.
 */
export async function handleCall(call: SandboxCall, context: CallContext): Promise<void> {
  const { request, response, endpoint, question, key } = call
  const { recorder, jobs, closing, settings } = context
  const point = { endpoint, inputs: question.inputs, nth: recorder.inputs.tried(question.inputs) }
  const draw = (range: MsRange, what: string) =>
    drawMs(range, settings().seed, `${what} ${faultPointKey(point)}`)
  const drop = () => {
    recorder.request(endpoint, 'dropped')
    request.socket.destroy()
  }

  const before = draw(settings().latencyBeforeMs, 'before')
  if (before > 0) await abortableDelay(before, closing)
  if (closing.aborted) return
  const decision = decideCall(question, point, key, context)
  if (decision === undefined) return drop()
  const { answer, work, job, isDropped = false, isSlow = false } = decision
  if (work === 'bulk') recorder.inputs.done(question.inputs, 'bulk')

  const after = draw(settings().latencyAfterMs, 'after') + (isSlow ? draw(settings().slowMs, 'slow') : 0)
  if (after > 0) await abortableDelay(after, closing)
  const isEarly = job !== undefined && !closing.aborted && jobs.isEarly(job)
  if (isEarly) await jobs.startNow(job)
  if (closing.aborted) return

  // A client that has disconnected never sees the answer, although the work was done.
  const isUnanswered = isDropped || response.destroyed
  if (work === 'single') recorder.inputs.done(question.inputs, isUnanswered ? 'unanswered' : 'single')
  if (isDropped) drop()
  else {
    recorder.request(endpoint, answer.status)
    sendResponse(response, answer, settings())
  }
  if (job !== undefined && !isEarly) jobs.start(job)
}
