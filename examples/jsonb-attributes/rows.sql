insert into app.tenants values
  ('11111111-1111-4111-8111-111111111111', 'One'),
  ('22222222-2222-4222-8222-222222222222', 'Two'),
  ('33333333-3333-4333-8333-333333333333', 'Three');

-- The same 40 organisations for each tenant. Some attributes are missing, some JSON null, some typed.
insert into app.organizations (tenant_id, id, name, attributes, is_deleted)
select t.id, n, 'Org ' || n,
       jsonb_strip_nulls(jsonb_build_object('website',
         case n % 8 when 0 then null when 1 then '' when 2 then 'mail@org' || n || '.example' when 3 then 'org'
                    when 4 then 'https://org' || n || '.example/#top' when 5 then 'ORG' || n - 1 || '.example'
                    else 'www.org' || n || '.example' end))
       || case n % 4 when 0 then '{}' when 1 then jsonb_build_object('firmographics', null)
                     when 2 then jsonb_build_object('firmographics', jsonb_build_object('industry', 'Fishing', 'employees', n))
                     else jsonb_build_object('firmographics', jsonb_build_object('industry', ' ', 'employees', null, 'nace', '03.11')) end
       || case n % 3 when 0 then '{"hq": {"city": "Molde", "street": "Kaia 1"}}' when 1 then '{"hq": {"country": null}}' else '{}' end::jsonb
       || case n % 5 when 0 then '{"technologies": ["Nets"]}' when 1 then '{"technologies": []}' else '{}' end::jsonb
       || jsonb_build_object('stage', 'lead'),
       n % 9 = 0
  from app.tenants t, generate_series(1, 40) n;

insert into app.people (tenant_id, id, organization_id, display_name, attributes, is_deleted)
select t.id, n, case when n % 3 > 0 then 1 + n % 40 end,
       case when n % 20 = 0 then null else (array['Tor', 'Una', 'Vi'])[1 + n % 3] || ' Nr ' || n end,
       jsonb_strip_nulls(jsonb_build_object('email',
         case n % 10 when 0 then null when 1 then 'see notes' when 2 then 'NR' || n || '@Org.Example'
                     when 3 then 'nr' || n - 1 || '@org.example' when 4 then 'mailto:nr' || n || '@org.example'
                     else 'nr' || n || '@org' || 1 + n % 40 || '.example' end))
       || case n % 5 when 0 then '{"title": "Skipper"}' when 1 then '{"title": null}' when 2 then '{"title": "  "}' else '{}' end::jsonb
       || case n % 7 when 0 then jsonb_build_object('contact', jsonb_build_object('phone', '+47 70 00 47 11', 'linkedin', 'https://www.linkedin.com/in/nr-' || n))
                     when 1 then '{"contact": {"phone": ""}}' when 2 then '{"contact": null}'
                     -- A text where an object is expected: adding a key would destroy it.
                     when 3 then '{"contact": "by fax"}' else '{}' end::jsonb
       || case n % 6 when 0 then '{"work": {"department": "Deck", "since": 2019}}' when 1 then '{"work": {"seniority": "mate"}}'
                     when 2 then '{"work": []}' else '{}' end::jsonb
       || jsonb_build_object('import', jsonb_build_object('file', 'crew.csv', 'line', n)),
       n % 14 = 0
  from app.tenants t, generate_series(1, 120) n;

-- Two complete rows.
update app.people
   set attributes = attributes || '{"title": "a", "contact": {"phone": "b", "linkedin": "https://www.linkedin.com/in/whole"}, "work": {"department": "d", "seniority": "e"}}'
 where id in (15, 27);

analyze app.people, app.organizations;
