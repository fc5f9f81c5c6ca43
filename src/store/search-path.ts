/** The search path of a role, as Fillrate uses it. */
interface SearchPath {
  /** The schemas that are searched, as the setting is written. */
  readonly searched: string
  /** All schemas of the role's own path, as an array literal: tables of the configuration are found in these. */
  readonly own: string
}

/**
 * The role's search path without the schemas in which another role may create. Postgres prefers an operator or function for
 * exactly the types of its arguments to its own for any type, whatever its schema: one that another role has created would run
 * with the rights of Fillrate's. Superusers, the owners of the database, of the schema, and of tables that this role updates,
 * whose triggers run with its rights anyway, are no such roles.
 * NULL: no schema has to be left out.
 */
export const SEARCH_PATH_SQL = `
  select case when pg_catalog.bool_or(s.is_open) then pg_catalog.concat_ws(', ',
           pg_catalog.string_agg(pg_catalog.quote_ident(s.name), ', ' order by s.place) filter (where not s.is_open),
           'pg_temp'::pg_catalog.text) end as searched,
         pg_catalog.array_agg(s.name order by s.place)::pg_catalog.text as own
    from (select n.nspname::pg_catalog.text as name, p.place, exists (
            select from pg_catalog.aclexplode(n.nspacl) as a
              left join pg_catalog.pg_roles as r on r.oid = a.grantee
             where a.privilege_type = 'CREATE'::pg_catalog.text and a.grantee <> n.nspowner and a.grantee <> d.datdba
               and r.rolsuper is not true and r.rolname is distinct from current_user
               and not exists (select from pg_catalog.pg_class as c
                                where c.relowner = a.grantee and c.relkind operator(pg_catalog.=) any ('{r,p}'::"char"[])
                                  and pg_catalog.has_any_column_privilege(c.oid, 'UPDATE'::pg_catalog.text))) as is_open
            from pg_catalog.unnest(pg_catalog.current_schemas(false)) with ordinality as p(name, place)
            join pg_catalog.pg_namespace as n on n.nspname = p.name
            join pg_catalog.pg_database as d on d.datname = pg_catalog.current_database()) as s`

/** SQL: sets the search path, for the transaction or for the session. */
export const setSearchPathSql = ({ searched, own }: SearchPath, isLocal: boolean): string =>
  `select pg_catalog.set_config('search_path', ${literal(searched)}, ${isLocal}), ` +
  `pg_catalog.set_config('${OWN_PATH_SETTING}', ${literal(own)}, ${isLocal})`

/** Holds the schemas of the role's own path where some of them are left out. */
const OWN_PATH_SETTING = 'fillrate.own_search_path'

const literal = (text: string): string => `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
