import { parseExactJson } from '../../domain/json.ts'
import { type Db, query } from '../db.ts'
import { type DatabaseError, NON_ROW_CLASSES } from '../pg-errors.ts'

/** A row that the database rejects on its own. */
export interface RejectedRow {
  readonly index: number
  readonly error: DatabaseError
}

/**
 * Bisects a rejected batch until each bad row stands alone, in the database: ten bad rows in a thousand take about 150
 * tries, which would be as many round trips from here, and as many statements in everyone's statistics.
 * Each try is a subtransaction, which PL/pgSQL opens for its EXCEPTION clause. The settings are local to the transaction,
 * so this works behind a pooler.
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
  result jsonb;
  one int;
  last int;
  middle int;
  code text;
  message text;
  broken_constraint text;
  broken_column text;
begin
  while cardinality(firsts) > 0 loop
    one := firsts[cardinality(firsts)];
    last := lasts[cardinality(lasts)];
    firsts := trim_array(firsts, 1);
    lasts := trim_array(lasts, 1);
    begin
      -- The whole batch has been rejected already.
      if one = 1 and last = cardinality(batch) and last > 1 then
        raise exception using errcode = 'P0001';
      end if;
      execute current_setting('fillrate.statement') into result using to_jsonb(batch[one:last]);
      results := results || result;
    exception when others or assert_failure then
      get stacked diagnostics code = returned_sqlstate, message = message_text, broken_constraint = constraint_name,
        broken_column = column_name;
      if left(code, 2) in (${NON_ROW_CLASSES.map((kind) => `'${kind}'`).join(', ')}) then
        raise;
      elsif one = last then
        results := results || jsonb_build_array(jsonb_build_object('index', batch[one] -> 'index', 'error', jsonb_build_object(
          'code', code, 'message', message, 'constraint', nullif(broken_constraint, ''),
          'column', nullif(broken_column, ''))));
      else
        middle := (one + last) / 2;
        firsts := firsts || array[middle + 1, one];
        lasts := lasts || array[last, middle];
      end if;
    end;
  end loop;
  perform set_config('fillrate.results', results::text, true);
end $fillrate$`

/** Runs a rejected batch for its good rows and returns the error of each bad one, in three statements. */
export async function bisectBatch<Result>(
  tx: Db,
  statement: string,
  batch: ReadonlyArray<{ readonly index: number }>,
): Promise<ReadonlyArray<Result | RejectedRow>> {
  await query(
    tx,
    `select set_config('fillrate.statement', $1, true), set_config('fillrate.batch', $2, true)`,
    [statement, JSON.stringify(batch)],
  )
  await query(tx, BISECT_SQL)
  const [row] = await query<{ results: string }>(tx, `select current_setting('fillrate.results') as results`)
  return row === undefined ? [] : (parseExactJson(row.results) as Array<Result | RejectedRow>)
}
