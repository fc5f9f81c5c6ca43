-- 48 accounts: every fourth website is shared with another account, some are invalid, one in twelve is deleted.
insert into crm.accounts (name, website, category, industry, employees, annual_revenue, founded_year, linkedin_url, technologies, deleted_at)
select 'Company ' || n,
       case when n % 16 = 3 then null
            when n % 16 = 5 then 'https://www.facebook.com/company' || n
            when n % 16 = 7 then 'office@company' || n || '.example'
            when n % 16 = 9 then ' '
            when n % 16 = 11 then 'gmail.com'
            when n % 4 = 0 then 'HTTP://www.Company' || n - 2 || '.example:80/about?from=crm'
            when n % 4 = 1 then 'company' || n || '.example'
            else ' https://www.company' || n || '.example/ ' end,
       (array['customer', 'prospect', 'vendor'])[1 + n % 3],
       case when n % 6 = 0 then 'Widgets' when n % 6 = 1 then '' when n % 6 = 2 then e'\u00a0' end,
       case when n % 5 = 0 then 0 when n % 5 = 1 then n * 10 end,
       case when n % 9 = 0 then 1250000.50 end,
       case when n % 7 = 0 then 1990 + n % 30 end,
       case when n % 8 = 0 then 'https://www.linkedin.com/company/company-' || n end,
       case when n % 10 = 0 then array['Spreadsheets'] when n % 10 = 1 then '{}'::text[] end,
       case when n % 12 = 0 then now() - interval '40 days' end
  from generate_series(1, 48) n;

-- Two complete rows.
update crm.accounts
   set industry = 'Retail', employees = 12, annual_revenue = 900000, founded_year = 2004,
       linkedin_url = 'https://www.linkedin.com/company/whole', technologies = '{Paper}'
 where id in (13, 26);

-- 240 contacts: every tenth shares the address of the one before, written differently.
insert into crm.contacts (first_name, last_name, title, department, email, phone, mobile, linkedin, deleted_at)
select case when n % 31 = 0 then '' else (array['Ada', 'Bo', 'Cem', 'Dag', 'Eli'])[1 + n % 5] end,
       case when n % 31 = 0 then '' else 'Person ' || n end,
       case when n % 7 = 0 then 'Owner, and nr ' || n when n % 7 = 1 then '' when n % 7 = 2 then e' \u200b' when n % 7 = 3 then 'N/A' end,
       case when n % 11 = 0 then 'Kitchen' end,
       case when n % 10 = 0 then '  PERSON' || n - 1 || '@Company' || 1 + (n - 1) % 48 || '.EXAMPLE '
            when n % 18 = 1 then null
            when n % 18 = 2 then ''
            when n % 18 = 3 then 'mailto:person' || n || '@company.example'
            when n % 18 = 4 then 'person' || n || '@company.example; office@company.example'
            when n % 18 = 5 then 'Person <person' || n || '@company.example>'
            when n % 18 = 6 then 'ask reception'
            when n % 18 = 7 then 'person' || n || '@localhost'
            else 'person' || n || '@company' || 1 + n % 48 || '.example' end,
       case when n % 6 = 0 then '+47 22 00 00 ' || lpad((n % 100)::text, 2, '0') when n % 6 = 1 then '0' end,
       case when n % 12 = 0 then '+47 900 00 ' || lpad(n::text, 3, '0') end,
       case when n % 9 = 2 then 'https://www.linkedin.com/in/person-' || n
            when n % 9 = 3 then 'no.linkedin.com/in/PERSON-' || n || '/?locale=no'
            when n % 9 = 4 then 'https://www.linkedin.com/company/company-' || n
            when n % 9 = 5 then '@person' || n end,
       case when n % 13 = 0 then now() - interval '10 days' end
  from generate_series(1, 240) n;

-- Three complete rows.
update crm.contacts set title = 'Chief', department = 'Board', phone = '+4722000000' where id in (8, 27, 45);

update crm.contacts set do_not_call = true where id % 40 = 17;

-- Most work somewhere; some have changed jobs, and some have left.
insert into crm.account_contacts (account_id, contact_id, ended_at)
select 1 + n % 48, n, case when n % 20 in (3, 4) then date '2024-05-31' end
  from generate_series(1, 240) n where n % 5 > 0;
insert into crm.account_contacts (account_id, contact_id)
select 1 + (n + 7) % 48, n from generate_series(1, 240) n where n % 20 = 3;

insert into crm.addresses (owner_type, owner_id, kind, street, city, state, country, deleted_at)
select 'Account', n, case when n % 3 = 0 then 'billing' else 'office' end, 'Main street ' || n,
       case when n % 4 = 0 then 'Springfield' when n % 4 = 1 then ' ' end,
       null,
       case when n % 6 = 0 then 'Norway' end,
       case when n % 10 = 0 then now() - interval '5 days' end
  from generate_series(1, 48) n;
insert into crm.addresses (owner_type, owner_id, kind, street, city)
select 'Contact', n, 'home', 'Side road ' || n, case when n % 2 = 0 then 'Hamar' end
  from generate_series(1, 60) n;

analyze crm.accounts, crm.contacts, crm.account_contacts, crm.addresses;
