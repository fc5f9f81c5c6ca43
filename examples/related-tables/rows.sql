insert into crm.company (name, website, industry, updated_at, deleted_at)
select 'Works ' || n,
       case n % 9 when 0 then null when 1 then 'works' when 2 then 'https://facebook.com/works' || n
                  when 3 then 'info@works' || n || '.example' when 4 then 'https://works' || n - 1 || '.example'
                  else 'www.works' || n || '.example/contact' end,
       case when n % 4 = 0 then 'Tools' when n % 4 = 1 then ' ' end,
       timestamptz '2024-03-01 08:00Z', case when n % 13 = 0 then timestamptz '2024-04-01 08:00Z' end
  from generate_series(1, 60) n;

insert into crm.person (full_name, linkedin, phone, updated_at, deleted_at)
select (array['Eva', 'Finn', 'Gro', 'Hans'])[1 + n % 4] || ' Nr ' || n,
       case n % 8 when 0 then 'https://www.linkedin.com/in/person-' || n when 1 then 'linkedin.com/in/Person-' || n || '/'
                  when 2 then 'person-' || n when 3 then 'https://www.linkedin.com/company/works' else '' end,
       case when n % 5 = 0 then '+47 900 00 ' || n end,
       timestamptz '2024-03-01 08:00Z', case when n % 17 = 0 then timestamptz '2024-04-01 08:00Z' end
  from generate_series(1, 150) n;

insert into crm.employment (person_id, company_id, is_current, job_title, department)
select n, 1 + n % 60, true, case when n % 6 = 0 then 'Foreman' when n % 6 = 1 then '' end,
       case when n % 4 = 0 then 'Yard' end
  from generate_series(1, 150) n where n % 5 > 0;
insert into crm.employment (person_id, company_id, is_current)
select n, 1 + (n + 7) % 60, false from generate_series(1, 150, 3) n;

insert into crm.email (person_id, kind, address)
select n, 'work', case n % 10 when 1 then 'person' || n || '@works' when 3 then 'person' || n || '@works.example, post@works.example'
                              else 'person' || n - n % 2 || '@works' || 1 + n % 60 || '.example' end
  from generate_series(1, 150) n where n % 2 = 1 or n % 12 = 0;
insert into crm.email (person_id, kind, address)
select n, 'private', 'person' || n || '@mail.example' from generate_series(1, 150, 7) n;

-- The empty email rows that Fillrate can fill, for everyone without one.
insert into crm.email (person_id, kind)
select p.id, 'work' from crm.person p
 where not exists (select from crm.email e where e.person_id = p.id and e.kind = 'work')
 order by p.id;

insert into crm.address (owner_type, owner_id, street, city, country)
select 'company', n, 'Quay ' || n, case when n % 3 = 0 then 'Moss' end, case when n % 6 = 0 then 'Norway' end
  from generate_series(1, 60) n;
insert into crm.address (owner_type, owner_id, street) select 'person', n, 'Lane ' || n from generate_series(1, 20) n;
update crm.address set state = 'Viken' where owner_id % 12 = 0;

analyze crm.company, crm.person, crm.employment, crm.email, crm.address;
