import type { FastifyInstance } from 'fastify'
import * as pauses from '../../../store/pauses.ts'
import type { Database } from '../../../store/open.ts'

/** What can be done from the dashboard: a source is paused or resumed, and nothing else. */
export function actions(
  server: FastifyInstance,
  {
    db,
    sources,
    onChanged,
  }: {
    readonly db: Database
    readonly sources: () => ReadonlyMap<string, unknown>
    readonly onChanged: () => void
  },
): void {
  server.post<{ Params: { source: string; verb: string } }>(
    '/sources/:source/:verb',
    async (request, reply) => {
      const { source, verb } = request.params
      if (!sources().has(source) || (verb !== 'pause' && verb !== 'resume'))
        return reply.code(404).send({ error: 'no such source' })
      if (verb === 'pause') await pauses.pause(db, [source], 'the dashboard')
      else await pauses.resume(db, [source])
      onChanged()
      return reply.redirect(`/#source-${source}`, 303)
    },
  )
}
