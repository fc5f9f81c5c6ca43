import type { IncomingMessage, ServerResponse } from 'node:http'
import { send } from './answers.ts'
import { drawFrom } from './chance.ts'
import type { Range } from './chance.ts'
import { decide } from './decide.ts'
import type { CallContext } from './decide.ts'
import { momentText } from './faults.ts'
import { pause } from './pause.ts'
import type { Endpoint, Question } from './questions.ts'

/** One authenticated call, whole. */
export interface Call {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly endpoint: Endpoint
  readonly question: Question
  readonly key: string
}

/**
 * Answers one call. What becomes of it is decided at once at its arrival (after `latencyBeforeMs`); only the
 * answer waits. So calls are counted and refused in the order in which they come.
 */
export async function answerCall(call: Call, context: CallContext): Promise<void> {
  const { request, response, endpoint, question, key } = call
  const { recorder, jobs, closing, settings } = context
  const moment = { endpoint, inputs: question.inputs, nth: recorder.inputs.tried(question.inputs) }
  const draw = (range: Range, what: string) =>
    drawFrom(range, settings().seed, `${what} ${momentText(moment)}`)
  const drop = () => {
    recorder.request(endpoint, 'dropped')
    request.socket.destroy()
  }

  const before = draw(settings().latencyBeforeMs, 'before')
  if (before > 0) await pause(before, closing)
  if (closing.aborted) return
  const decision = decide(question, moment, key, context)
  if (decision === undefined) return drop()
  const { answer, work, job, isDropped = false, isSlow = false } = decision
  if (work === 'bulk') recorder.inputs.done(question.inputs, 'bulk')

  const after = draw(settings().latencyAfterMs, 'after') + (isSlow ? draw(settings().slowMs, 'slow') : 0)
  if (after > 0) await pause(after, closing)
  const isEarly = job !== undefined && !closing.aborted && jobs.isEarly(job)
  if (isEarly) await jobs.startNow(job)
  if (closing.aborted) return

  // A caller that has gone by now will never see the answer, though the work was done.
  const isUnanswered = isDropped || response.destroyed
  if (work === 'single') recorder.inputs.done(question.inputs, isUnanswered ? 'unanswered' : 'single')
  if (isDropped) drop()
  else {
    recorder.request(endpoint, answer.status)
    send(response, answer, settings())
  }
  if (job !== undefined && !isEarly) jobs.start(job)
}
