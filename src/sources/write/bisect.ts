import { parseExactJson } from '../../domain/json.ts'
import { query, type Db } from '../db.ts'
import { NON_ROW_CLASSES, type DatabaseError } from '../pg-errors.ts'

/** The error that a row alone gave. */
export interface RejectedRow {
  readonly i: number
  readonly error: DatabaseError
}

/**
 * Halves a refused batch until each bad row stands alone, inside the database: ten bad rows in a thousand take
 * about 150 tries, which would be as many round trips from here, and as many statements for everyone to count.
 * Each try is a subtransaction that PL/pgSQL opens for its EXCEPTION clause. The settings are local to the
 * transaction, which keeps this right behind a pooler.
 */
const BISECT_SQL = `
do $fillrate$
declare
  batch constant jsonb[] := array(
    select row from jsonb_array_elements(current_setting('fillrate.batch')::jsonb) with ordinality as e(row, place)
     order by place);
  firsts int[] := array[1];
  lasts int[] := array[cardinality(batch)];
  results jsonb := '[]';
  told jsonb;
  one int;
  last int;
  middle int;
  code text;
  said text;
  broke text;
  place text;
begin
  while cardinality(firsts) > 0 loop
    one := firsts[cardinality(firsts)];
    last := lasts[cardinality(lasts)];
    firsts := trim_array(firsts, 1);
    lasts := trim_array(lasts, 1);
    begin
      -- The whole batch has been refused already.
      if one = 1 and last = cardinality(batch) and last > 1 then
        raise exception using errcode = 'P0001';
      end if;
      execute current_setting('fillrate.statement') into told using to_jsonb(batch[one:last]);
      results := results || told;
    exception when others or assert_failure then
      get stacked diagnostics code = returned_sqlstate, said = message_text, broke = constraint_name, place = column_name;
      if left(code, 2) in (${NON_ROW_CLASSES.map((kind) => `'${kind}'`).join(', ')}) then
        raise;
      elsif one = last then
        results := results || jsonb_build_array(jsonb_build_object('i', batch[one] -> 'i', 'error', jsonb_build_object(
          'code', code, 'message', said, 'constraint', nullif(broke, ''), 'column', nullif(place, ''))));
      else
        middle := (one + last) / 2;
        firsts := firsts || array[middle + 1, one];
        lasts := lasts || array[last, middle];
      end if;
    end;
  end loop;
  perform set_config('fillrate.results', results::text, true);
end $fillrate$`

/** Carries a refused batch out for its good rows and tells the error of each bad one, in three statements. */
export async function bisectBatch<Told>(
  tx: Db,
  statement: string,
  batch: ReadonlyArray<{ readonly i: number }>,
): Promise<ReadonlyArray<Told | RejectedRow>> {
  await query(
    tx,
    `select set_config('fillrate.statement', $1, true), set_config('fillrate.batch', $2, true)`,
    [statement, JSON.stringify(batch)],
  )
  await query(tx, BISECT_SQL)
  const [row] = await query<{ results: string }>(tx, `select current_setting('fillrate.results') as results`)
  return row === undefined ? [] : (parseExactJson(row.results) as Array<Told | RejectedRow>)
}
