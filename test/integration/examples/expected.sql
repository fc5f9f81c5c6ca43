-- What Fillrate should find in an example, computed in plain SQL, independently of its code. The example's own file defines
-- its rows (the view expected.rows); expected.outcomes follows from them.
create schema expected;

-- White space, no-break and zero-width spaces too.
create function expected.trim_blank(value text) returns text immutable language sql as $$
  select btrim(coalesce(value, ''), e' \t\r\n\u00a0\u200b')
$$;

create function expected.is_blank(value jsonb) returns boolean immutable language sql as $$
  select value is null or value in ('null', '[]')
      or (jsonb_typeof(value) = 'string' and expected.trim_blank(value #>> '{}') = '')
$$;

create function expected.email_fault(email text) returns text immutable language sql as $$
  select case when email ~ '^mailto:' then 'mailto: link'
              when email !~ '@' then 'no @'
              when email ~ '[,;]' then 'list of addresses'
              when email ~ '[<>]' then 'address with a display name'
              when email ~ '@.*@' then 'more than one @'
              when email ~ '\s' then 'white space inside'
              when email ~ '@localhost$' then 'localhost'
              when email !~ '@.+\..+' then 'host without a dot' end
$$;

create function expected.profile_fault(url text) returns text immutable language sql as $$
  select case when url ~ '^(https?://)?([a-z-]+\.)*linkedin\.com/in/[^/?#]+' then null
              when url ~ '^(https?://)?([a-z-]+\.)*linkedin\.com/company/' then 'company page'
              when url ~ '^(https?://)?[^/]*\.' then 'not a linkedin.com address'
              else 'bare handle' end
$$;

create function expected.host(url text) returns text immutable language sql as $$
  select regexp_replace(regexp_replace(lower(url), '^(https?:)?//', ''), '(:\d+)?([/?#].*)?$', '')
$$;

create function expected.domain_fault(url text) returns text immutable language sql as $$
  select case when url ~ '@' then 'email address'
              when expected.host(url) ~ '\s' then 'white space inside'
              when expected.host(url) ~ '^(www\.)?(gmail|outlook)\.com$' then 'free-mail host'
              when expected.host(url) ~ '(^|\.)(facebook|linkedin)\.com$' then 'social host'
              when expected.host(url) = 'localhost' then 'localhost'
              when expected.host(url) ~ '^[\d.]+$' then 'IP address'
              when expected.host(url) !~ '\.' then 'host without a dot' end
$$;

create function expected.fold_case(value text) returns text immutable language sql as $$
  select lower(regexp_replace(expected.trim_blank(value), '\s+', ' ', 'g'))
$$;

-- One row for each row that belongs to a source; each example replaces this view.
create view expected.rows as
select null::text as source, null::text as key, null::text as email, null::text as profile, null::text as name,
       null::text as company, null::text as domain, null::jsonb as cells
 where false;

-- For each row: its lookup, or why it has none, and whether it has a blank cell.
create view expected.outcomes as
with raw as (
  select source, key, lower(expected.trim_blank(email)) as email, lower(expected.trim_blank(profile)) as profile,
         expected.fold_case(name) as name, expected.fold_case(company) as company, expected.trim_blank(domain) as domain,
         exists (select from jsonb_each(cells) where expected.is_blank(value)) as lacks
    from expected.rows
), judged as (
  select *, nullif(email, '') is not null and expected.email_fault(email) is null as by_email,
         nullif(profile, '') is not null and expected.profile_fault(profile) is null as by_profile,
         name <> '' and company <> '' as by_name,
         nullif(domain, '') is not null and expected.domain_fault(domain) is null as by_domain
    from raw
)
select source, key, lacks,
       case when by_email then 'email' when by_profile then 'linkedin_url'
            when by_name then 'name_company' when by_domain then 'domain' end as kind,
       case when by_email then email
            when by_profile then substring(profile from '/in/([^/?#]+)')
            when by_name then name || '|' || company
            when by_domain then regexp_replace(rtrim(expected.host(domain), '.'), '^www\.', '') end as lookup_key,
       case when by_email or by_profile or by_name or by_domain then null
            else coalesce(nullif(concat_ws('; ',
              case when email <> '' then 'email: ' || expected.email_fault(email) end,
              case when profile <> '' then 'linkedin_url: ' || expected.profile_fault(profile) end,
              case when email <> '' or profile <> '' then null when name <> '' then 'company: missing' when company <> '' then 'name: missing' end,
              case when domain <> '' then 'domain: ' || expected.domain_fault(domain) end), ''), 'no input') end as fault
  from judged;
