import { getEventListeners } from 'node:events'
import { createServer } from 'node:net'
import { inspect } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { AbortedError, ConnectionError, TimeoutError } from '../../../src/service/errors.ts'
import { listenOnLoopback } from '../../support/loopback.ts'
import { clientOf, recordingObserver, rejection, serve, serveAlways } from './loopback-service.ts'

const input = { email: 'secret.person@x.example' }

describe('a lost call', () => {
  test('a timeout without a response may have been sent', async () => {
    const service = await serve(() => {})
    const observer = recordingObserver()
    const error = await rejection(
      clientOf(service, { timeoutMs: 1_000 }).enrichPerson(input, { observer }),
      TimeoutError,
    )
    expect(error).toMatchObject({ status: null, maybeSent: true, action: 'retry' })
    expect(error.message).toContain('timed out after 1000 ms (no response)')
    expect(observer.events).toEqual(['sent', 'lost'])
  })

  test('a stalled body is a timeout with a status', async () => {
    const service = await serve((_, response) => {
      response.writeHead(200)
      response.write('{')
    })
    const observer = recordingObserver()
    const error = await rejection(
      clientOf(service, { timeoutMs: 1_000 }).enrichPerson(input, { observer }),
      TimeoutError,
    )
    expect(error).toMatchObject({ status: 200, maybeSent: true })
    expect(observer.events).toEqual(['sent', 'answered 200'])
  })

  test('a timeout while waiting for a connection was not sent', async () => {
    const service = await serve(() => {})
    const client = clientOf(service, { connections: 1, timeoutMs: 1_000 })
    const [first, second] = [recordingObserver(), recordingObserver()]
    const onTheWire = rejection(client.enrichPerson(input, { observer: first }), TimeoutError)
    // Not by its own timeout: the first call may end before and free the connection.
    const stop = new AbortController()
    const waiting = rejection(
      client.enrichPerson(input, { observer: second, signal: stop.signal }),
      AbortedError,
    )
    stop.abort()
    expect((await waiting).maybeSent).toBe(false)
    expect((await onTheWire).maybeSent).toBe(true)
    expect([first.events, second.events]).toEqual([['sent', 'lost'], []])
    expect(service.received).toHaveLength(1)
  })

  test('a refused connection was not sent', async () => {
    const { url, close } = await listenOnLoopback(createServer())
    await close()
    const observer = recordingObserver()
    const client = clientOf({ baseUrl: url })
    const error = await rejection(client.enrichPerson(input, { observer }), ConnectionError)
    expect(error).toMatchObject({ status: null, maybeSent: false, action: 'retry' })
    expect(error.message).toContain('ECONNREFUSED')
    expect(error.cause).toMatchObject({ code: 'ECONNREFUSED' })
    expect(observer.events).toEqual([])
  })

  test('a failed TLS handshake was not sent', async () => {
    const service = await serveAlways(200, {})
    const client = clientOf({ baseUrl: service.baseUrl.replace('http:', 'https:') })
    const error = await rejection(client.enrichPerson(input), ConnectionError)
    expect(error.maybeSent).toBe(false)
    expect(service.received).toEqual([])
  })

  test('a connection reset before the response may have been sent', async () => {
    const service = await serve(({ socket }) => socket.resetAndDestroy())
    const observer = recordingObserver()
    const error = await rejection(clientOf(service).enrichPerson(input, { observer }), ConnectionError)
    expect(error).toMatchObject({ status: null, maybeSent: true })
    expect(error.message).toContain('lost the connection to 127.0.0.1:')
    expect(observer.events).toEqual(['sent', 'lost'])
  })

  test('a connection reset in the middle of the body', async () => {
    const service = await serve(({ socket }, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('{"confidence":1', () => socket.resetAndDestroy())
    })
    const observer = recordingObserver()
    const error = await rejection(clientOf(service).enrichPerson(input, { observer }), ConnectionError)
    expect(error).toMatchObject({ status: 200, maybeSent: true })
    expect(error.message).toContain('the response was cut off')
    expect(observer.events).toEqual(['sent', 'answered 200'])
  })

  test('an error does not hold bytes that are not HTTP', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.end('secret.person@x.example\r\n\r\n')
    })
    const { url, close } = await listenOnLoopback(server)
    onTestFinished(close)
    const client = clientOf({ baseUrl: url })
    const error = await rejection(client.enrichPerson(input), ConnectionError)
    expect(inspect(error, { depth: 10 })).not.toContain('secret.person')
  })

  test('a call after a lost one opens a new connection', async () => {
    let isFirst = true
    const service = await serve(({ socket }, response) => {
      if (isFirst) socket.resetAndDestroy()
      else response.writeHead(404).end()
      isFirst = false
    })
    const client = clientOf(service, { connections: 1 })
    await rejection(client.enrichPerson(input), ConnectionError)
    expect(await client.enrichPerson(input)).toEqual({ outcome: 'not_found' })
  })

  test('a closed client sends nothing, and can be closed twice', async () => {
    const service = await serveAlways(404)
    const client = clientOf(service)
    await client.close()
    await client.close()
    const error = await rejection(client.enrichPerson(input), ConnectionError)
    expect(error.maybeSent).toBe(false)
    expect(service.received).toEqual([])
  })

  test('closing waits for the calls in flight', async () => {
    let finish: () => void = () => {}
    const arrived = Promise.withResolvers<void>()
    const service = await serve((_, response) => {
      finish = () => response.writeHead(404).end()
      arrived.resolve()
    })
    const client = clientOf(service)
    const answer = client.enrichPerson(input)
    await arrived.promise
    const closed = client.close()
    finish()
    expect(await answer).toEqual({ outcome: 'not_found' })
    await closed
  })
})

describe('an aborted call', () => {
  test('before it starts is not sent', async () => {
    const service = await serveAlways(404)
    const error = await rejection(
      clientOf(service).enrichPerson(input, { signal: AbortSignal.abort(new Error('enough')) }),
      AbortedError,
    )
    expect(error).toMatchObject({ maybeSent: false, action: 'release', cause: { message: 'enough' } })
    expect(service.received).toEqual([])
  })

  test('in flight may have been sent', async () => {
    const controller = new AbortController()
    const service = await serve(() => controller.abort())
    const observer = recordingObserver()
    const error = await rejection(
      clientOf(service).enrichPerson(input, { observer, signal: controller.signal }),
      AbortedError,
    )
    expect(error.maybeSent).toBe(true)
    expect(observer.events).toEqual(['sent', 'lost'])
  })

  test('while waiting for a connection is not sent, and frees its slot', async () => {
    const controller = new AbortController()
    const held = Promise.withResolvers<() => void>()
    const service = await serve((_, response) => held.resolve(() => response.writeHead(404).end()))
    const client = clientOf(service, { connections: 1 })
    const first = client.enrichPerson(input)
    const finish = await held.promise
    const waiting = rejection(client.enrichPerson(input, { signal: controller.signal }), AbortedError)
    controller.abort()
    expect((await waiting).maybeSent).toBe(false)
    finish()
    expect(await first).toEqual({ outcome: 'not_found' })
    expect(service.received).toHaveLength(1)
  })

  test('many calls can share one signal, which keeps no listeners', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error): number => warnings.push(warning)
    process.on('warning', onWarning)
    onTestFinished(() => void process.off('warning', onWarning))
    const service = await serveAlways(404)
    const client = clientOf(service)
    const { signal } = new AbortController()
    await Promise.all(Array.from({ length: 50 }, () => client.enrichPerson(input, { signal })))
    expect(getEventListeners(signal, 'abort')).toEqual([])
    await new Promise((resolve) => setImmediate(resolve))
    expect(warnings).toEqual([])
  })
})
