create view expected.people as
select p.id, p.deleted_at, p.linkedin as profile, p.full_name as name, p.phone,
       max(e.address) as email,
       max(c.name) as company
  from crm.person p left join crm.email e on e.person_id = p.id and e.kind <> 'private'
       left join crm.employment m on m.person_id = p.id and m.is_current
       left join crm.company c on c.id = m.company_id and c.deleted_at is null
 group by p.id;

create or replace view expected.rows as
select 'people' as source, id::text as key, email, profile, name, company, null::text as domain,
       jsonb_build_object('phone', phone) as cells
  from expected.people where deleted_at is null
union all
select 'jobs', array_to_json(array[m.person_id::text, m.company_id::text])::text, p.email, p.profile, p.name, p.company, null,
       jsonb_build_object('job_title', m.job_title, 'department', m.department)
  from crm.employment m join expected.people p on p.id = m.person_id
 where m.is_current and p.deleted_at is null
union all
select 'emails', e.id::text, p.email, p.profile, p.name, p.company, null, jsonb_build_object('address', e.address)
  from crm.email e join expected.people p on p.id = e.person_id
 where e.kind = 'work' and p.deleted_at is null
union all
select 'companies', id::text, null, null, null, null, website, jsonb_build_object('industry', industry)
  from crm.company where deleted_at is null
union all
select 'addresses', a.id::text, null, null, null, null, c.website,
       jsonb_build_object('city', a.city, 'state', a.state, 'country', a.country)
  from crm.address a left join crm.company c on c.id = a.owner_id and c.deleted_at is null
 where a.owner_type <> 'person';
