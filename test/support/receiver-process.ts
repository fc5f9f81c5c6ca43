import { BUILT_IN_SERVICE } from '../../src/domain/service/built-in.ts'
import { createWebhookReceiver } from '../../src/pipeline/receive.ts'
import { openDatabase } from '../../src/store/open.ts'
import { openTestServer } from './app-processes.ts'

/** The process's only argument, as JSON. */
export interface ReceiverTask {
  readonly databaseUrl: string
  readonly secret: string
}

/** Memory of the process, in bytes. */
export interface MemoryReport {
  readonly rss: number
  /** The highest `rss` so far. */
  readonly peak: number
}

/** A receiver in its own process, so that its memory is measured without that of its senders. */
const task = JSON.parse(process.argv[2] ?? '') as ReceiverTask
const db = openDatabase({ url: task.databaseUrl, max: 4 })
const server = await openTestServer({
  receive: createWebhookReceiver(db, [task.secret], BUILT_IN_SERVICE, async () => null),
  signature: () => BUILT_IN_SERVICE.signature,
})
process.on('message', () => {
  const report: MemoryReport = {
    rss: process.memoryUsage.rss(),
    peak: process.resourceUsage().maxRSS * 1024,
  }
  process.send?.(report)
})
process.once('disconnect', () => {
  void server.close().then(() => db.destroy())
})
process.send?.(server.port)
