create or replace view expected.rows as
with addresses as (
  select l.entity_id, e.address, rank() over (partition by l.entity_id order by l."primary" desc, l.id) as place
    from entity_email_address l, email_address e
   where e.id = l.email_address_id and l.entity_type = 'Contact' and not (l.deleted or e.deleted or e.invalid)
)
select 'contacts' as source, c.id::text as key, d.address::text as email, c.linkedin_url::text as profile,
       coalesce(c.first_name, '') || ' ' || coalesce(c.last_name, '') as name, a.name::text as company, null::text as domain,
       jsonb_build_object('title', c.title, 'department', c.department, 'seniority', c.seniority,
         'phone_number', c.phone_number) as cells
  from contact c left join addresses d on d.entity_id = c.id and d.place = 1
       left join account a on a.id = c.account_id and a.deleted = false
 where c.deleted = false and c.do_not_call = false
   and c.id not in (select l.entity_id from entity_email_address l, email_address e
                     where e.id = l.email_address_id and l."primary" and l.deleted = false and e.opt_out)
union all
select 'accounts', id::text, null, null, null, null, website,
       jsonb_build_object('industry', industry, 'employees', employees, 'founded_year', founded_year,
         'annual_revenue', annual_revenue, 'billing_address_city', billing_address_city,
         'billing_address_state', billing_address_state, 'billing_address_country', billing_address_country)
  from account where deleted = false;
