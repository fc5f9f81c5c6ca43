import { LOCK_NOT_AVAILABLE, NON_ROW_STATES, RAISED_LINE, type DatabaseError } from '../../util/error-text.ts'
import { parseExactJson } from '../../domain/json.ts'
import { query, quoteLiteral, type Db } from '../db.ts'
import { keyFromTextSql, keyOrderSql } from '../key.ts'
import type { Source } from '../source-model.ts'
import type { CellUnit } from './row-update.ts'

/** A row that the database rejects, whichever of its cells are left out. */
export interface RejectedRow {
  readonly index: number
  readonly error: DatabaseError
}

/** A cell that the database rejects, or a group of cells; the row's others are written. */
interface RejectedUnit {
  readonly index: number
  readonly unit: number
  readonly error: DatabaseError
}

/** What a rejected batch is tried with. */
interface Trials {
  /** Takes rows as `$1::jsonb`, and leaves out a unit whose inputs a row lacks. */
  readonly statement: string
  /** SQL to be executed after it, and after what it has deferred; may be empty. */
  readonly afterwards: string
  readonly units: readonly CellUnit[]
  /** By what an error names (`constraint x`, `column x`, `type x`): the units that it may mean. */
  readonly suspects: Readonly<Record<string, readonly number[]>>
}

/*
 * Finds what a batch was rejected for, in the database: ten bad rows in a thousand take about 150 tries, which
 * would be as many round trips. Each try is a subtransaction of an EXCEPTION clause, at whose end what is checked
 * at commit, also by triggers of other tables, is checked. The statement stands in the block once, to be planned a few times and not for each try; the
 * settings are local to the transaction, so this works behind a pooler.
 *
 * A rejected range of `rows`, in the order of their keys, is halved until each bad row stands alone; the first half
 * comes first, so that of two rows that exclude one another the first is written. A bad row takes at most four
 * tries for each of its units:
 * `nothing`: the row without any cell, which locks it. If that fails, no cell is to blame.
 * `suspects`: without the units that the error points to (by constraint, column or domain), or that an earlier row
 * was rejected for with the same SQLSTATE. It costs one try for most bad cells.
 * `adding`: otherwise the units are added to the fine ones, half by half; rolled back each time.
 * `fine`: the row with all units that are fine.
 *
 * A row whose trigger or constraint waits for another transaction is reported with that error. After three in a row
 * a table is locked, and the rest are reported without a try, each of which would wait.
 */

/** Ends a try whose writes must not stay. */
const ROLLED_BACK = 'FRTRY'

/** Rows in a row that wait for another transaction, after which no further one is tried. */
const MAX_WAITS = 3

/** Nothing can be written to a row that is missing, locked, changed or doubled, and no cell is to blame. */
const IS_WRITABLE_ROW = `"~results"::jsonb -> 0 ->> 'state' in ('written', 'unchanged', 'prevented')`

const trialsSql = (source: Source, trials: Trials): string => `
#variable_conflict use_column
declare
  batch constant jsonb[] := array(
    select e.row from jsonb_array_elements(current_setting('fillrate.batch')::jsonb) as e(row)
     cross join lateral ${keyFromTextSql(source, "(e.row ->> '~key')")} as p order by ${keyOrderSql(source, 'p')});${VARIABLES}
begin
  loop
    ${CHOOSE}
    ${trySql(trials)}
    ${AFTER_WAIT}
    ${AFTER_ROWS}
    ${AFTER_CELLS}
    ${CHOOSE_SUSPECTS}
    ${END_ROW}
  end loop;
  perform set_config('fillrate.results', '[' || array_to_string(results, ',') || ']', true),
          set_config('fillrate.rejected', to_jsonb(rejected)::text, true);
end`

const VARIABLES = `
  units constant jsonb := current_setting('fillrate.units');
  suspects constant jsonb := current_setting('fillrate.suspects');
  firsts int[] := array[1];
  lasts int[] := array[cardinality(batch)];
  head int;
  last int;
  middle int;
  phase text := 'rows';
  is_rolled_back boolean;
  is_done boolean;
  waits int := 0;
  "~parameter" jsonb;
  "~results" text;
  results text[] := '{}';
  rejected jsonb[] := '{}';
  unchanged text;
  bad_row jsonb;
  present int[];
  fine int[];
  tried int[];
  suspected int[];
  removed int[];
  adding int[];
  froms int[] := '{}';
  tos int[] := '{}';
  errors jsonb;
  learned jsonb := '{}';
  row_error jsonb;
  failure jsonb;
  code text;
  message text;
  context text;
  broken_constraint text;
  broken_column text;
  broken_type text;`

/** What to try next, as `~parameter`. */
const CHOOSE = `if phase = 'rows' then
      exit when cardinality(firsts) = 0;
      head := firsts[cardinality(firsts)];
      last := lasts[cardinality(lasts)];
      firsts := trim_array(firsts, 1);
      lasts := trim_array(lasts, 1);
      -- The whole batch has been rejected already.
      if head = 1 and last = cardinality(batch) and last > 1 then
        middle := last / 2;
        firsts := array[middle + 1, 1];
        lasts := array[last, middle];
        continue;
      end if;
      "~parameter" := to_jsonb(batch[head:last]);
    else
      tried := case phase
        when 'nothing' then '{}'
        when 'suspects' then array(select u from unnest(present) u where u <> all(removed))
        when 'adding' then fine || adding[froms[cardinality(froms)]:tos[cardinality(tos)]]
        else fine end;
      "~parameter" := jsonb_build_array(bad_row - array(
        select name from unnest(present) u, jsonb_array_elements_text(units -> u -> 'inputs') name where u <> all(tried)));
    end if;
    is_rolled_back := phase = 'adding' or (phase = 'suspects' and cardinality(removed) > 1);`

/** Gives `~results`, or the `failure`. */
const trySql = ({ statement, afterwards }: Trials): string => `failure := null;
    is_done := false;
    begin
      set constraints all deferred;
      ${statement.replaceAll('$1::jsonb', '"~parameter"')} into "~results";
      set constraints all immediate;
      ${afterwards}
      is_done := true;
      if is_rolled_back then
        raise exception using errcode = '${ROLLED_BACK}';
      end if;
    exception when others or assert_failure then
      get stacked diagnostics code = returned_sqlstate, message = message_text, broken_constraint = constraint_name,
        broken_column = column_name, broken_type = pg_datatype_name, context = pg_exception_context;
      if code ~ '${NON_ROW_STATES}'
         and (code <> '${LOCK_NOT_AVAILABLE}' or split_part(context, chr(10), 1) ~ '${RAISED_LINE}') then
        raise;
      elsif not is_done then
        failure := jsonb_build_object(
          'code', code, 'message', message, 'constraint', nullif(broken_constraint, ''), 'column', nullif(broken_column, ''),
          'type', nullif(broken_type, ''), 'where', nullif(context, ''));
      end if;
    end;`

const AFTER_WAIT = `if failure ->> 'code' = '${LOCK_NOT_AVAILABLE}' and (phase <> 'rows' or head = last or waits >= ${MAX_WAITS}) then
      results := results || (
        select jsonb_agg(jsonb_build_object('index', item -> '~row', 'error', failure))::text
          from unnest(case phase when 'rows' then batch[head:last] else array[bad_row] end) as item);
      waits := waits + 1;
      phase := 'rows';
      continue;
    end if;`

const AFTER_ROWS = `if phase = 'rows' then
      if failure is null then
        waits := 0;
        results := results || "~results";
      elsif head < last then
        middle := (head + last) / 2;
        firsts := firsts || array[middle + 1, head];
        lasts := lasts || array[last, middle];
      else
        bad_row := batch[head];
        row_error := failure;
        present := array(
          select u from generate_series(0, jsonb_array_length(units) - 1) u
           where exists (select from jsonb_array_elements_text(units -> u -> 'inputs') name where bad_row ? name));
        phase := 'nothing';
      end if;
      continue;
    end if;`

const AFTER_CELLS = `if phase = 'nothing' then
      if failure is not null or not coalesce(${IS_WRITABLE_ROW}, true) then
        results := results || case when failure is null then "~results"
          else jsonb_build_array(jsonb_build_object('index', bad_row -> '~row', 'error', failure))::text end;
        phase := 'rows';
        continue;
      end if;
      unchanged := "~results";
      errors := '{}';
      removed := '{}';
      failure := row_error;
    elsif phase = 'adding' then
      head := froms[cardinality(froms)];
      last := tos[cardinality(tos)];
      froms := trim_array(froms, 1);
      tos := trim_array(tos, 1);
      if failure is null then
        fine := fine || adding[head:last];
      elsif head < last then
        middle := (head + last) / 2;
        froms := froms || array[middle + 1, head];
        tos := tos || array[last, middle];
      else
        errors := errors || jsonb_build_object(adding[head], failure);
        learned := learned || jsonb_build_object(failure ->> 'code', adding[head]);
      end if;
      if cardinality(froms) > 0 then
        continue;
      elsif cardinality(fine) > 0 then
        phase := 'fine';
        continue;
      end if;
      "~results" := unchanged;
      failure := null;
    elsif phase = 'suspects' and failure is null then
      fine := array(select u from unnest(present) u where u <> all(removed));
      if is_rolled_back then
        -- Perhaps only one of them is bad.
        adding := removed;
        froms := array[1];
        tos := array[cardinality(adding)];
        phase := 'adding';
        continue;
      end if;
    end if;`

const CHOOSE_SUSPECTS = `if phase in ('nothing', 'suspects') and failure is not null then
      suspected := array(
        select u::int from jsonb_array_elements_text(coalesce(
          suspects -> ('column ' || (failure ->> 'column')), suspects -> ('constraint ' || (failure ->> 'constraint')),
          suspects -> ('type ' || (failure ->> 'type')), '[]')) u where u::int = any(present) and u::int <> all(removed));
      if cardinality(suspected) = 0 then
        suspected := array(select u from unnest(present) u where u = (learned ->> (failure ->> 'code'))::int and u <> all(removed));
      end if;
      if cardinality(suspected) > 0 then
        errors := errors || (select jsonb_object_agg(u, failure) from unnest(suspected) u);
        removed := removed || suspected;
        phase := 'suspects';
      else
        fine := '{}';
        adding := present;
        froms := array[1];
        tos := array[cardinality(adding)];
        phase := 'adding';
      end if;
      continue;
    end if;`

const END_ROW = `if failure is not null then
      results := results || jsonb_build_array(jsonb_build_object('index', bad_row -> '~row', 'error', failure))::text;
    else
      results := results || "~results";
      rejected := rejected || array(
        select jsonb_build_object('index', bad_row -> '~row', 'unit', u, 'error', errors -> u::text)
          from unnest(present) u where u <> all(fine));
    end if;
    phase := 'rows';`

/**
 * Runs a rejected batch for its good rows and cells, in three statements.
 * @param batch the rows as JSON
 */
export async function bisectBatch(
  tx: Db,
  source: Source,
  batch: string,
  trials: Trials,
): Promise<{
  readonly results: ReadonlyArray<object | RejectedRow>
  readonly rejected: readonly RejectedUnit[]
}> {
  await query(
    tx,
    `select set_config('fillrate.batch', $1, true), set_config('fillrate.units', $2, true), set_config('fillrate.suspects', $3, true)`,
    [batch, JSON.stringify(trials.units), JSON.stringify(trials.suspects)],
  )
  await query(tx, `do ${quoteLiteral(trialsSql(source, trials))}`)
  const [row] = await query<{ results: string; rejected: string }>(
    tx,
    `select current_setting('fillrate.results') as results, current_setting('fillrate.rejected') as rejected`,
  )
  if (row === undefined) return { results: [], rejected: [] }
  return {
    results: (parseExactJson(row.results) as Array<Array<object | RejectedRow>>).flat(),
    rejected: parseExactJson(row.rejected) as RejectedUnit[],
  }
}
