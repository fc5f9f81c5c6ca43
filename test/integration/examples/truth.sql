-- What Fillrate should find in an example, told in plain SQL and not by its code. An example's own file says what its
-- rows are (the view truth.rows); the rest follows from that: truth.verdicts.
create schema truth;

-- White space, no-break and zero-width spaces too.
create function truth.trimmed(value text) returns text immutable language sql as $$
  select btrim(coalesce(value, ''), e' \t\r\n\u00a0\u200b')
$$;

create function truth.is_blank(value jsonb) returns boolean immutable language sql as $$
  select value is null or value in ('null', '[]')
      or (jsonb_typeof(value) = 'string' and truth.trimmed(value #>> '{}') = '')
$$;

create function truth.email_fault(email text) returns text immutable language sql as $$
  select case when email ~ '^mailto:' then 'mailto: link'
              when email !~ '@' then 'no @'
              when email ~ '[,;]' then 'list of addresses'
              when email ~ '[<>]' then 'address with a display name'
              when email ~ '@.*@' then 'more than one @'
              when email ~ '\s' then 'white space inside'
              when email ~ '@localhost$' then 'localhost'
              when email !~ '@.+\..+' then 'host without a dot' end
$$;

create function truth.profile_fault(url text) returns text immutable language sql as $$
  select case when url ~ '^(https?://)?([a-z-]+\.)*linkedin\.com/in/[^/?#]+' then null
              when url ~ '^(https?://)?([a-z-]+\.)*linkedin\.com/company/' then 'company page'
              when url ~ '^(https?://)?[^/]*\.' then 'not a linkedin.com address'
              else 'bare handle' end
$$;

create function truth.host(url text) returns text immutable language sql as $$
  select regexp_replace(regexp_replace(lower(url), '^(https?:)?//', ''), '(:\d+)?([/?#].*)?$', '')
$$;

create function truth.domain_fault(url text) returns text immutable language sql as $$
  select case when url ~ '@' then 'email address'
              when truth.host(url) ~ '\s' then 'white space inside'
              when truth.host(url) ~ '^(www\.)?(gmail|outlook)\.com$' then 'free-mail host'
              when truth.host(url) ~ '(^|\.)(facebook|linkedin)\.com$' then 'social host'
              when truth.host(url) = 'localhost' then 'localhost'
              when truth.host(url) ~ '^[\d.]+$' then 'IP address'
              when truth.host(url) !~ '\.' then 'host without a dot' end
$$;

create function truth.folded(value text) returns text immutable language sql as $$
  select lower(regexp_replace(truth.trimmed(value), '\s+', ' ', 'g'))
$$;

-- One row for each row that belongs to a source; made anew by each example.
create view truth.rows as
select null::text as source, null::text as key, null::text as email, null::text as profile, null::text as name,
       null::text as company, null::text as domain, null::jsonb as cells
 where false;

-- What is asked about each row, or why nothing can be, and whether anything is to be filled in.
create view truth.verdicts as
with raw as (
  select source, key, lower(truth.trimmed(email)) as email, lower(truth.trimmed(profile)) as profile,
         truth.folded(name) as name, truth.folded(company) as company, truth.trimmed(domain) as domain,
         exists (select from jsonb_each(cells) where truth.is_blank(value)) as lacks
    from truth.rows
), judged as (
  select *, nullif(email, '') is not null and truth.email_fault(email) is null as by_email,
         nullif(profile, '') is not null and truth.profile_fault(profile) is null as by_profile,
         name <> '' and company <> '' as by_name,
         nullif(domain, '') is not null and truth.domain_fault(domain) is null as by_domain
    from raw
)
select source, key, lacks,
       case when by_email then 'email' when by_profile then 'linkedin_url'
            when by_name then 'name_company' when by_domain then 'domain' end as kind,
       case when by_email then email
            when by_profile then substring(profile from '/in/([^/?#]+)')
            when by_name then name || '|' || company
            when by_domain then regexp_replace(rtrim(truth.host(domain), '.'), '^www\.', '') end as question,
       case when by_email or by_profile or by_name or by_domain then null
            else coalesce(nullif(concat_ws('; ',
              case when email <> '' then 'email: ' || truth.email_fault(email) end,
              case when profile <> '' then 'linkedin_url: ' || truth.profile_fault(profile) end,
              case when name <> '' then 'company: company is missing' when company <> '' then 'name: name is missing' end,
              case when domain <> '' then 'domain: ' || truth.domain_fault(domain) end), ''), 'no input') end as fault
  from judged;
