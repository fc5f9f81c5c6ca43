import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A service that answers each email with a given text, byte for byte. */
export interface RecordService {
  readonly url: string
  /** JSON texts by email. Other emails get a 404. */
  readonly records: Map<string, string>
  readonly calls: () => number
  close(): Promise<void>
}

export async function startRecordService(): Promise<RecordService> {
  const records = new Map<string, string>()
  let calls = 0
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      calls++
      const { email } = JSON.parse(Buffer.concat(chunks).toString()) as { email: string }
      const record = records.get(email)
      response.writeHead(record === undefined ? 404 : 200, {
        'content-type': 'application/json',
        'X-RateLimit-Limit': '1000000',
        'X-RateLimit-Remaining': String(1_000_000 - calls),
        'X-RateLimit-Reset': String(Math.ceil(Date.now() / 60_000) * 60),
      })
      response.end(record ?? '{"error":"not found"}')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    records,
    calls: () => calls,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
