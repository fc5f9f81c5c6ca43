import type { Harness } from './harness.ts'

/** Puts the rows of a run back to where their answers have just come. What it wrote to the tables stays. */
export const rewindWrites = (harness: Pick<Harness, 'query'>): Promise<object[]> =>
  harness.query(`
    delete from fillrate.changes;
    update fillrate.rows
       set state = 'waiting', failure = null, reason = null, settled_at = null, due_at = null, last_written = null;
    insert into fillrate.answered_lookups select distinct lookup_id from fillrate.rows`)
