import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimited } from './limiters.ts'
import type { ServiceTask, ServiceMessage } from './service.ts'

/** The service, in a process of its own: one of the limiters, and an answer after a while. Its task is the argument of `fork`. */
const task = JSON.parse(process.argv[2] ?? '') as ServiceTask
const limited = createLimited(task.limiter, task.limit, task.windowMs)
const acceptedAt: number[] = []
const windowStarts: number[] = []
let windowEnd = 0
let rejected = 0
const body = JSON.stringify({ id: 'p', title: 'Engineer', confidence: 0.9 })
const between = ([from, to]: readonly [number, number]): number => from + Math.random() * (to - from)

const server = createServer((request, response) => {
  request.resume()
  void (async () => {
    await sleep(between(task.before))
    const now = Date.now()
    const passed = await limited(request, response)
    if (passed.accepted) acceptedAt.push(now)
    else rejected++
    if (passed.accepted && passed.windowEnd > windowEnd + task.windowMs / 2) {
      windowEnd = passed.windowEnd
      windowStarts.push(now)
    }
    await sleep(between(task.after))
    response.writeHead(passed.accepted ? 200 : 429, { 'content-type': 'application/json' })
    response.end(passed.accepted ? body : '{}')
  })()
})
// Idle connections stay open for the time of a case: closing one would race with a call.
server.keepAliveTimeout = 120_000
const send = (message: ServiceMessage): void => void process.send?.(message)
process.on('message', () => send({ type: 'counts', acceptedAt, windowStarts, rejected, now: Date.now() }))
process.on('disconnect', () => process.exit())
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  send({ type: 'ready', port: typeof address === 'object' && address ? address.port : 0 })
})
