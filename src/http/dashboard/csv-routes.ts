import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { iterateRows } from '../../actions/find-rows.ts'
import { findRun } from '../../store/runs.ts'
import { listRunChanges } from '../../store/run-history.ts'
import { listDaySpend } from '../../store/spend.ts'
import { formatCsvLine } from '../../util/csv.ts'
import type { PageRouteOptions } from './page-context.ts'
import { parseRowQuery, type RowQuery } from './pages/rows.ts'
import { toRowFilter } from './row-routes.ts'

/** Days of spend in its file: a year, and the month of the year before. */
const SPEND_DAYS = 396

/** Registers what pages show as CSV files: rows, the changes of a run, spend. */
export function registerCsvRoutes(server: FastifyInstance, { db }: Pick<PageRouteOptions, 'db'>): void {
  server.get<{ Querystring: RowQuery }>('/rows.csv', (request, reply) => {
    const search = parseRowQuery(request.query)
    return sendCsv(reply, 'rows.csv', ROW_COLUMNS, async function* () {
      for await (const page of iterateRows(db, toRowFilter(search), search.sort ?? 'key'))
        yield page.map((row) => [
          row.source,
          row.key,
          row.lookupKind,
          row.lookupKey,
          row.state,
          row.reason,
          String(row.cellsWritten),
          row.run === null ? null : String(row.run),
          row.at.toISOString(),
          row.dueAt?.toISOString() ?? null,
        ])
    })
  })

  server.get<{ Params: { id: string } }>('/runs/:id/changes.csv', async (request, reply) => {
    const id = Number(request.params.id)
    if (!Number.isSafeInteger(id) || id < 1 || (await findRun(db, id)) === null)
      return reply.code(404).send({ error: `there is no run ${request.params.id}` })
    return sendCsv(reply, `run-${id}-changes.csv`, CHANGE_COLUMNS, async function* () {
      for (let after = 0; ;) {
        const page = await listRunChanges(db, id, after, CSV_PAGE_CHANGES)
        yield page.flatMap(({ source, key, writtenAt, before, after: values, isUndone }) =>
          Object.entries(values).map(([column, value]) => [
            source,
            key,
            writtenAt.toISOString(),
            column,
            csvValue(before[column]),
            csvValue(value),
            String(isUndone),
          ]),
        )
        const last = page.at(-1)
        if (last === undefined || page.length < CSV_PAGE_CHANGES) return
        after = last.id
      }
    })
  })

  server.get('/spend.csv', (_, reply) =>
    sendCsv(reply, 'spend.csv', SPEND_COLUMNS, async function* () {
      yield (await listDaySpend(db, SPEND_DAYS)).map((one) => [
        one.day,
        one.source,
        one.endpoint,
        ...[one.calls, one.retried, one.throttled, one.lookups, one.in_doubt, one.credits ?? one.lookups].map(
          String,
        ),
      ])
    }),
  )
}

const CSV_PAGE_CHANGES = 1_000

const ROW_COLUMNS = [
  'source',
  'key',
  'looked_up_by',
  'identifier',
  'state',
  'reason',
  'cells_written',
  'run',
  'at',
  'due_at',
]
const CHANGE_COLUMNS = ['source', 'key', 'written_at', 'column', 'before', 'after', 'undone']

const SPEND_COLUMNS = [
  'day',
  'source',
  'endpoint',
  'calls',
  'retried',
  'throttled',
  'lookups',
  'in_doubt',
  'credits',
]

const csvValue = (value: unknown): string | null =>
  value === null || value === undefined ? null : typeof value === 'string' ? value : JSON.stringify(value)

/** Sends a CSV file as it is read: a million lines are never in memory at once. */
function sendCsv(
  reply: FastifyReply,
  name: string,
  columns: readonly string[],
  readLines: () => AsyncGenerator<(string | null)[][]>,
): FastifyReply {
  async function* text() {
    yield formatCsvLine(columns)
    for await (const lines of readLines())
      if (lines.length > 0) yield lines.map((line) => formatCsvLine(line)).join('')
  }
  return reply
    .type('text/csv; charset=utf-8')
    .header('content-disposition', `attachment; filename="${name}"`)
    .send(Readable.from(text()))
}
