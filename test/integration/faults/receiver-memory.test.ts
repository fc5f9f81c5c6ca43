import { fork, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { useTestDatabase } from '../../support/database.ts'
import type { MemoryReport, ReceiverTask } from '../../support/receiver-process.ts'

// Memory of a real receiver process while raw sockets send many bodies at once.

const SECRET = 'a-secret-of-the-test'
const MIB = 1024 * 1024
const LIMIT = 10 * MIB
const database = useTestDatabase()
let child: ChildProcess
let port: number
const opened = new Set<Socket>()
/** Starts a request and sends a few bytes at a time without end, because silence alone would be detected. */
let trickle: Sender
let trickling: NodeJS.Timeout

beforeAll(async () => {
  const task: ReceiverTask = { databaseUrl: database.url, secret: SECRET }
  child = fork(new URL('../../support/receiver-process.ts', import.meta.url), [JSON.stringify(task)])
  port = ((await once(child, 'message')) as [number])[0]
  trickle = new Sender()
  trickle.socket.write('POST /webhooks/enrichment HTTP/1.1\r\n')
  trickling = setInterval(() => trickle.socket.write('x-more: 1\r\n'), 500)
})
afterAll(async () => {
  clearInterval(trickling)
  for (const socket of opened) socket.destroy()
  const ended = once(child, 'exit')
  child.disconnect()
  await ended
})

async function memory(): Promise<MemoryReport> {
  child.send('memory')
  return ((await once(child, 'message')) as [MemoryReport])[0]
}

/** One request on its own raw connection. */
class Sender {
  readonly socket: Socket
  #text = ''
  readonly #answered = Promise.withResolvers<string>()

  constructor() {
    this.socket = connect(port, '127.0.0.1')
    opened.add(this.socket)
    // A receiver that rejects a body may close the connection before it is complete.
    this.socket.on('error', () => {})
    this.socket.setEncoding('latin1').on('data', (text: string) => {
      this.#text += text
      if (this.#text.includes('\r\n\r\n')) this.#answered.resolve(this.#text)
    })
    this.socket.on('close', () => {
      opened.delete(this.socket)
      this.#answered.resolve(this.#text)
    })
  }

  /** @param length null: chunked */
  head(length: number | null, signature: string | null): void {
    const framing = length === null ? 'transfer-encoding: chunked' : `content-length: ${length}`
    const signed = signature === null ? '' : `x-webhook-signature: ${signature}\r\n`
    this.socket.write(
      `POST /webhooks/enrichment HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${signed}${framing}\r\n\r\n`,
    )
  }

  get hasAnswer(): boolean {
    return this.#text.includes('\r\n\r\n')
  }

  /** Writes until everything is sent, or the connection is closed. */
  async body(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length && !this.socket.destroyed; at += MIB) {
      if (!this.socket.write(bytes.subarray(at, at + MIB)))
        await Promise.race([once(this.socket, 'drain'), once(this.socket, 'close')]).catch(() => {})
    }
  }

  /** The response as received so far; empty if there is none. */
  answer(): Promise<string> {
    return this.#answered.promise
  }

  close(): void {
    this.socket.destroy()
  }
}

const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0)
/** A well-formed signature of another body. */
const WRONG = signWebhook('something else', SECRET)

function signedEvent(bytes: number): { readonly body: Buffer; readonly signature: string } {
  const event = { event_id: randomUUID(), job_id: 'none', status: 'completed', results: [], pad: '' }
  event.pad = 'x'.repeat(bytes - Buffer.byteLength(JSON.stringify(event)))
  const body = Buffer.from(JSON.stringify(event))
  return { body, signature: signWebhook(body, SECRET) }
}

async function deliver({ body, signature }: ReturnType<typeof signedEvent>): Promise<string> {
  const sender = new Sender()
  sender.head(body.length, signature)
  await sender.body(body)
  const answer = await sender.answer()
  sender.close()
  return answer
}

test('200 parallel bodies of 10 MiB without a signature cost less than 64 MiB', async () => {
  // Warms up, so that one-time allocations do not count.
  expect(statusOf(await deliver(signedEvent(1_000)))).toBe(200)
  const before = await memory()
  const body = Buffer.alloc(LIMIT, 'x')
  const senders = Array.from({ length: 200 }, () => new Sender())
  const answers = await Promise.all(
    senders.map(async (sender) => {
      sender.head(LIMIT, null)
      await sender.body(body)
      return sender.answer()
    }),
  )
  const after = await memory()
  for (const sender of senders) sender.close()
  expect((after.peak - before.rss) / MIB).toBeLessThan(64)
  expect(new Set(answers.map(statusOf).filter((status) => status !== 0))).toEqual(new Set([401]))
})

test('a missing or malformed signature is answered 401 before the body arrives', async () => {
  for (const signature of [null, '', 'x', WRONG.toUpperCase(), `sha256=${WRONG}`, `${WRONG}, ${WRONG}`]) {
    const sender = new Sender()
    sender.head(LIMIT, signature)
    expect({ signature, status: statusOf(await sender.answer()) }).toEqual({ signature, status: 401 })
    sender.close()
  }
})

test('the total size of incoming bodies is bounded: beyond it the answer is 503 with Retry-After', async () => {
  const before = await memory()
  const event = signedEvent(LIMIT)
  const large = Array.from({ length: 40 }, () => ({ sender: new Sender(), ...event }))
  for (const { sender, body, signature } of large) {
    sender.head(LIMIT, signature)
    sender.socket.write(body.subarray(0, MIB))
  }
  // What has arrived is kept until the memory is full; the others have their answer.
  const waiting = () => large.filter(({ sender }) => !sender.hasAnswer)
  await expect.poll(() => waiting().length).toBeLessThanOrEqual(32)
  for (const { sender } of large.filter((one) => one.sender.hasAnswer)) {
    const answer = await sender.answer()
    expect(statusOf(answer)).toBe(503)
    expect(answer).toMatch(/\r\nretry-after: \d+\r\n/i)
  }
  // A normal delivery still fits beside them, and of those that go on, some always complete.
  expect(statusOf(await deliver(signedEvent(75_000)))).toBe(200)
  const inside = waiting()
  expect(inside.length).toBeGreaterThan(3)
  await Promise.all(inside.map(({ sender, body }) => sender.body(body.subarray(MIB))))
  const answers = (await Promise.all(inside.map(({ sender }) => sender.answer()))).map(statusOf)
  expect(answers).toContain(200)
  expect(answers.filter((status) => ![200, 503, 0].includes(status))).toEqual([])
  for (const { sender } of large) sender.close()
  const after = await memory()
  expect((after.peak - before.rss) / MIB).toBeLessThan(256)
  // Afterwards there is room again.
  expect(statusOf(await deliver(signedEvent(LIMIT)))).toBe(200)
})

/** What a stranger may do with a connection, of which none carries a delivery. */
const IDLE: Readonly<Record<string, (sender: Sender) => void>> = {
  'announce a body and send nothing': (sender) => sender.head(33_500, WRONG),
  'stop just before the end of the body': (sender) => {
    sender.head(33_500, WRONG)
    sender.socket.write('x'.repeat(33_400))
  },
  'stop within a body without a length': (sender) => {
    sender.head(null, WRONG)
    sender.socket.write(`8300\r\n${'x'.repeat(0x8300)}\r\n`)
  },
  'stop in the middle of a large body': (sender) => {
    sender.head(200_000, WRONG)
    sender.socket.write('x'.repeat(100_000))
  },
  'send one byte a second': (sender) => {
    sender.head(33_500, WRONG)
    sender.socket.write('x'.repeat(33_000))
    const slowly = setInterval(() => sender.socket.write('x'), 1_000)
    sender.socket.once('close', () => clearInterval(slowly))
  },
  'send more than was announced': (sender) => {
    sender.head(100, WRONG)
    sender.socket.write('x'.repeat(33_500))
  },
  'wait for the end of the headers': (sender) => {
    sender.socket.write('POST /webhooks/enrichment HTTP/1.1\r\n')
  },
}

test.each([...Object.entries(IDLE), ['do all of it', null] as const])(
  'with 1,015 connections that %s, 50 of 50 deliveries of 100 results are accepted',
  async (_, act) => {
    const acts = Object.values(IDLE)
    const idle = Array.from({ length: 1_015 }, (_, n) => {
      const sender = new Sender()
      ;(act ?? acts[n % acts.length])?.(sender)
      return sender
    })
    await Promise.all(idle.map(({ socket }) => (socket.connecting ? once(socket, 'connect') : null)))
    await expect.poll(() => idle.every(({ socket }) => socket.writableLength === 0)).toBe(true)
    // Until then they pass for senders that are about to go on.
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    const before = await memory()
    const answers = await Promise.all(Array.from({ length: 50 }, () => deliver(signedEvent(75_000))))
    expect(answers.map(statusOf)).toEqual(Array<number>(50).fill(200))
    expect(((await memory()).peak - before.rss) / MIB).toBeLessThan(128)
    for (const sender of idle) sender.close()
  },
)

test('a sender that is too slow with its headers is cut off, although it never pauses', async () => {
  await expect.poll(() => trickle.socket.destroyed).toBe(true)
})

test('silent connections beyond a bound are closed, the oldest first, and delay no delivery', async () => {
  const silent = Array.from({ length: 1_100 }, () => new Sender())
  await Promise.all(silent.map(({ socket }) => (socket.connecting ? once(socket, 'connect') : null)))
  expect(statusOf(await deliver(signedEvent(20_000)))).toBe(200)
  await expect.poll(() => silent.filter(({ socket }) => socket.destroyed).length).toBeGreaterThanOrEqual(76)
  expect(silent.at(-1)?.socket.destroyed).toBe(false)
  for (const sender of silent) sender.close()
})
