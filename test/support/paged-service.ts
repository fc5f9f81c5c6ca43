import { defineService } from '../../src/domain/service/adapter.ts'

/** Rows in the order of the emails, without names; the sum comes with every page. */
export default defineService({
  name: 'Paged',
  person: { path: '/person', inputs: ['email'], record: { confidence: null } },
  bulk: { path: '/jobs', size: 50, ordered: true },
  poll: {
    path: '/jobs/{job_id}',
    after: '50ms',
    query: (_, cursor) => ({ after: cursor ?? undefined }),
    read: ({ status, body }) => {
      const { rows, next, total } = (body ?? {}) as { rows?: object[]; next?: string | null; total?: number }
      if (status !== 200 || rows === undefined) return undefined
      const delivery = { results: rows.map((row) => ({ data: row })), credits: total }
      return next ? { outcome: 'more', delivery, cursor: next } : { outcome: 'results', delivery }
    },
  },
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: { person: { title: 'text' } },
})
