import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { formatCsvLine } from '../../util/csv.ts'
import type { DashboardDeps } from './dashboard-app.ts'
import { type CsvFile, PageRefused, type PageRequest } from './page.ts'

/** Sends the file of a page. A program reads it: that it does not exist is said in JSON. */
export async function sendCsv(
  reply: FastifyReply,
  { columns, open }: CsvFile,
  request: PageRequest,
  deps: DashboardDeps,
): Promise<FastifyReply> {
  try {
    const { name, moreColumns = [], lines } = await open(request, deps)
    return reply
      .type('text/csv; charset=utf-8')
      .header('content-disposition', `attachment; filename="${name}"`)
      .send(Readable.from(toText([...columns, ...moreColumns], lines)))
  } catch (error) {
    if (!(error instanceof PageRefused)) throw error
    return reply.code(error.status).send({ error: error.message })
  }
}

async function* toText(
  columns: CsvFile['columns'],
  pages: Awaited<ReturnType<CsvFile['open']>>['lines'],
): AsyncGenerator<string> {
  yield formatCsvLine(columns)
  for await (const lines of pages)
    if (lines.length > 0) yield lines.map((line) => formatCsvLine(line)).join('')
}
