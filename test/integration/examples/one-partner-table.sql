create or replace view expected.rows as
select 'people' as source, t.id::text as key, t.email::text, null::text as profile, t.name::text,
       case when t.parent_id is not null then (select p.name from partner p where p.id = t.parent_id)
            else t.company_name end::text as company,
       null::text as domain,
       jsonb_build_object('function', t."function", 'phone', t.phone, 'x_linkedin', t.x_linkedin,
         'x_department', t.x_department, 'x_seniority', t.x_seniority) as cells
  from partner t
 where (t.is_company is null or not t.is_company) and t.type = 'contact' and t.active
union all
select 'companies', t.id::text, null, null, null, null,
       case when expected.trim_blank(t.website) <> '' then t.website else substring(t.email from '@(.*)') end,
       jsonb_build_object('city', t.city, 'country_id', t.country_id, 'industry_id', t.industry_id,
         'x_employees', t.x_employees, 'x_turnover', t.x_turnover, 'x_founded_year', t.x_founded_year)
  from partner t
 where t.is_company and t.active;
