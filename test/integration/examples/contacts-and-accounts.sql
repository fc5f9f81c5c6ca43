create or replace view expected.rows as
select 'contacts' as source, c.id::text as key, c.email::text, c.linkedin::text as profile,
       c.first_name || ' ' || c.last_name as name,
       (select min(a.name) filter (where m.id = first.id) from crm.account_contacts m join crm.accounts a on a.id = m.account_id,
          (select min(m.id) as id from crm.account_contacts m join crm.accounts a on a.id = m.account_id
            where m.contact_id = c.id and m.ended_at is null and a.deleted_at is null) as first) as company,
       null::text as domain,
       jsonb_build_object('title', c.title, 'department', c.department, 'phone', c.phone) as cells
  from crm.contacts c
 where c.deleted_at is null and c.do_not_call = false
union all
select 'accounts', id::text, null, null, null, null, website,
       jsonb_build_object('industry', industry, 'employees', employees, 'annual_revenue', annual_revenue,
         'founded_year', founded_year, 'linkedin_url', linkedin_url, 'technologies', technologies)
  from crm.accounts where deleted_at is null
union all
select 'account_addresses', d.id::text, null, null, null, null, a.website,
       jsonb_build_object('city', d.city, 'state', d.state, 'country', d.country)
  from crm.addresses d left join crm.accounts a on a.id = d.owner_id and a.deleted_at is null
 where d.owner_type = 'Account' and d.kind = 'office' and d.deleted_at is null;
