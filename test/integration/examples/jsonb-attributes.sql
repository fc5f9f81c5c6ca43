-- A cell below a value that is no object cannot be filled, so it counts as not blank.
create function expected.at(attributes jsonb, parent text, key text) returns jsonb immutable language sql as $$
  select case when jsonb_typeof(attributes -> parent) in ('object', 'null') or not attributes ? parent
              then attributes -> parent -> key else '"out of reach"' end
$$;

create or replace view expected.rows as
select 'people' as source, array_to_json(array[p.tenant_id::text, p.id::text])::text as key, p.attributes ->> 'email' as email,
       null::text as profile, p.display_name as name,
       (select o.name from app.organizations o where o.tenant_id = p.tenant_id and o.id = p.organization_id and not o.is_deleted) as company,
       null::text as domain,
       jsonb_build_object('attributes.title', p.attributes -> 'title',
         'attributes.contact.phone', expected.at(p.attributes, 'contact', 'phone'),
         'attributes.contact.linkedin', expected.at(p.attributes, 'contact', 'linkedin'),
         'attributes.work.department', expected.at(p.attributes, 'work', 'department'),
         'attributes.work.seniority', expected.at(p.attributes, 'work', 'seniority')) as cells
  from app.people p
 where p.tenant_id = '22222222-2222-4222-8222-222222222222' and not p.is_deleted
union all
select 'organizations', array_to_json(array[o.tenant_id::text, o.id::text])::text, null, null, null, null, o.attributes ->> 'website',
       jsonb_build_object('attributes.firmographics.industry', expected.at(o.attributes, 'firmographics', 'industry'),
         'attributes.firmographics.employees', expected.at(o.attributes, 'firmographics', 'employees'),
         'attributes.hq.city', expected.at(o.attributes, 'hq', 'city'),
         'attributes.hq.country', expected.at(o.attributes, 'hq', 'country'),
         'attributes.technologies', o.attributes -> 'technologies')
  from app.organizations o
 where o.tenant_id = '22222222-2222-4222-8222-222222222222' and not o.is_deleted;
