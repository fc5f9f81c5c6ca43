/** To lease emails, after what can only be requested singly. */
export const BULK = [{ kinds: ['email'], singly: true }] as const

/** SQL: queues pending lookups that a test has inserted itself, as the statements that make lookups pending do. */
export const QUEUE_PENDING = `
  insert into fillrate.pending_lookups (run_id, service_id, kind, sync_only, source, size, lookup_ids)
  select run_id, service_id, kind, sync_only, source, count(*), array_agg(id order by id)
    from fillrate.lookups where state = 'pending' and run_id is not null group by 1, 2, 3, 4, 5, id / 100`
