import { type LoopbackService, startLoopback } from './loopback.ts'

/** A service that answers each email with a given text, byte for byte. */
export interface RecordService extends LoopbackService {
  /** JSON texts by email. Other emails get a 404. */
  readonly records: Map<string, string>
}

export async function startRecordService(): Promise<RecordService> {
  const records = new Map<string, string>()
  let calls = 0
  const service = await startLoopback(({ body }, response) => {
    calls++
    const { email } = JSON.parse(body) as { email: string }
    const record = records.get(email)
    response.writeHead(record === undefined ? 404 : 200, {
      'content-type': 'application/json',
      'X-RateLimit-Limit': '1000000',
      'X-RateLimit-Remaining': String(1_000_000 - calls),
      'X-RateLimit-Reset': String(Math.ceil(Date.now() / 60_000) * 60),
    })
    response.end(record ?? '{"error":"not found"}')
  })
  return { ...service, records }
}
