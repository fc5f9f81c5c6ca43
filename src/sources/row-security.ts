import { type Db, query, queryValue } from './db.ts'
import { keyMatchesSql } from './key.ts'
import type { Source } from './source-model.ts'

/*
 * SQL for what the row-level security of a table `c` lets this role do, as Postgres decides it: a command needs one permissive
 * policy of it that applies to the role, and all of the restrictive ones.
 */

/** SQL: whether a policy `p` applies to this role. 0 is PUBLIC. */
export const APPLIES = `exists (select from unnest(p.polroles) as r(oid) where case r.oid when 0 then true else pg_has_role(r.oid, 'usage') end)`

const policiesSql = (command: 'r' | 'w', isPermissive: boolean): string =>
  `from pg_policy p where p.polrelid = c.oid and p.polcmd in ('*', '${command}') and p.polpermissive = ${isPermissive} and p.polqual is not null and ${APPLIES}`

/** SQL: the condition of a policy. Postgres passes over a policy without one. */
const CONDITION = 'pg_get_expr(p.polqual, p.polrelid)'

/**
 * SQL: the rows that the permissive policies of a command let this role use, as a condition; NULL:
 * there is no such policy.
 */
export const permittedSql = (command: 'r' | 'w'): string =>
  `(select case when bool_or(condition = 'true') then 'true' else string_agg(distinct condition, ' OR ') end
      from (select ${CONDITION} as condition ${policiesSql(command, true)}) as found)`

/** SQL: the condition of the restrictive policies of a command; NULL: there is none. */
const restrictedSql = (command: 'r' | 'w'): string =>
  `(select string_agg(distinct '(' || ${CONDITION} || ')', ' AND ') ${policiesSql(command, false)})`

/**
 * Whether row-level security may hide rows of the source's table from this role: then a row that is not found need not be
 * deleted. Read when it is needed and not when the source is opened: policies change under a running program.
 */
export async function mayHideRows(db: Db, { table }: Pick<Source, 'table'>): Promise<boolean> {
  const hides = await queryValue<boolean>(
    db,
    `select row_security_active(c.oid)
            and (${permittedSql('r')} is distinct from 'true' or ${restrictedSql('r')} is not null)
       from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2`,
    [table.schema, table.name],
  )
  return hides ?? false
}

/** A result for one row. */
interface RowResult {
  readonly key: string
  readonly outcome: string
  readonly reason: string | null
}

/**
 * Rejects those rows of a batch that are reported as locked, and that no transaction has locked: the policies of the table let
 * this role read them and not update them. Otherwise they would wait for the end of a transaction that does not exist.
 * @param tx rows that are free by now stay locked until it ends
 */
export async function rejectProtectedRows<Result extends RowResult>(
  tx: Db,
  source: Source,
  results: readonly Result[],
): Promise<(Result | (Result & { readonly outcome: 'rejected' }))[]> {
  const locked = results.filter(({ outcome }) => outcome === 'locked').map(({ key }) => key)
  const found = locked.length === 0 ? null : await findProtectedRows(tx, source, locked)
  if (found === null) return [...results]
  const reason = `row-level security: its policies let the role ${found.role} read the row, and not update it`
  return results.map((result) =>
    found.keys.has(result.key) ? { ...result, outcome: 'rejected', reason } : result,
  )
}

/**
 * SKIP LOCKED does not show a locked row apart from one that a policy protects. So each is locked again without waiting, which
 * fails for a row that another transaction has locked, and finds no row that a policy protects.
 */
async function findProtectedRows(
  tx: Db,
  source: Source,
  keys: readonly string[],
): Promise<{ readonly role: string; readonly keys: ReadonlySet<string> } | null> {
  const role = await queryValue<string>(
    tx,
    `select current_user::text as role, set_config('fillrate.keys', $2, true)
       from (select row_security_active($1::regclass) as active) as one where active`,
    [source.table.sql, JSON.stringify(keys)],
  )
  if (role === null) return null
  await query(tx, lockEachSql(source))
  const found = await queryValue<string>(tx, `select current_setting('fillrate.protected')`)
  return { role, keys: new Set(JSON.parse(found ?? '[]') as string[]) }
}

const lockEachSql = (source: Source): string => {
  const row = `from ${source.table.sql} as t where ${keyMatchesSql(source, '"~key"')}`
  return `
do $fillrate$
#variable_conflict use_variable
declare
  "~key" text;
  "~protected" text[] := '{}';
begin
  for "~key" in select jsonb_array_elements_text(current_setting('fillrate.keys')::jsonb) loop
    begin
      perform ${row} for no key update nowait;
      if not found then
        perform ${row};
        if found then "~protected" := "~protected" || "~key"; end if;
      end if;
    exception when lock_not_available then null;
    end;
  end loop;
  perform set_config('fillrate.protected', to_jsonb("~protected")::text, true);
end $fillrate$`
}
