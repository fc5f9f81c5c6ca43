-- A cell below something that is no object can't be filled: it counts as one that is not blank.
create function truth.at(attributes jsonb, parent text, key text) returns jsonb immutable language sql as $$
  select case when jsonb_typeof(attributes -> parent) in ('object', 'null') or not attributes ? parent
              then attributes -> parent -> key else '"out of reach"' end
$$;

create or replace view truth.rows as
select 'people' as source, array_to_json(array[p.tenant_id::text, p.id::text])::text as key, p.attributes ->> 'email' as email,
       null::text as profile, p.display_name as name,
       (select o.name from app.organizations o where o.tenant_id = p.tenant_id and o.id = p.organization_id and not o.is_deleted) as company,
       null::text as domain,
       jsonb_build_object('attributes.title', p.attributes -> 'title',
         'attributes.contact.phone', truth.at(p.attributes, 'contact', 'phone'),
         'attributes.contact.linkedin', truth.at(p.attributes, 'contact', 'linkedin'),
         'attributes.work.department', truth.at(p.attributes, 'work', 'department'),
         'attributes.work.seniority', truth.at(p.attributes, 'work', 'seniority')) as cells
  from app.people p
 where p.tenant_id = '22222222-2222-4222-8222-222222222222' and not p.is_deleted
union all
select 'organizations', array_to_json(array[o.tenant_id::text, o.id::text])::text, null, null, null, null, o.attributes ->> 'website',
       jsonb_build_object('attributes.firmographics.industry', truth.at(o.attributes, 'firmographics', 'industry'),
         'attributes.firmographics.employees', truth.at(o.attributes, 'firmographics', 'employees'),
         'attributes.hq.city', truth.at(o.attributes, 'hq', 'city'),
         'attributes.hq.country', truth.at(o.attributes, 'hq', 'country'),
         'attributes.technologies', o.attributes -> 'technologies')
  from app.organizations o
 where o.tenant_id = '22222222-2222-4222-8222-222222222222' and not o.is_deleted;
