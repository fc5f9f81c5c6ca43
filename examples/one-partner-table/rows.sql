insert into country (code, name) values
  ('NO', 'Norway'), ('SE', 'Sweden'), ('DE', 'Germany'), ('FR', 'France'), ('NL', 'Netherlands'),
  ('GB', 'United Kingdom'), ('US', 'United States');
insert into partner_industry (name) values
  ('Software'), ('Manufacturing'), ('Retail'), ('Energy'), ('Health Care'), ('Wholesale');

-- 60 companies: some with a site, some with a shared email address only, some with neither.
insert into partner (name, is_company, email, phone, website, street, city, country_id, industry_id, x_employees, x_turnover, x_founded_year, active)
select 'Firm ' || n, true,
       case when n % 5 = 0 then 'post@firm' || n || '.example' when n % 5 = 1 then 'firm' || n || '@gmail.com' end,
       case when n % 3 = 0 then '22 00 0' || n end,
       case when n % 10 in (0, 1, 2) then null
            when n % 10 = 3 then ''
            when n % 10 = 4 then 'http://firm' || n || '.example/'
            when n % 10 = 5 then 'https://www.FIRM' || n || '.example/en/contact?x=1#y'
            when n % 10 = 6 then 'none'
            when n % 10 = 7 then 'https://www.linkedin.com/company/firm' || n
            when n % 10 = 8 then 'www.firm' || n - 4 || '.example.'
            else 'firm' || n || '.example:8443' end,
       'Road ' || n,
       case when n % 4 = 0 then 'Oslo' when n % 4 = 1 then e'\u00a0' end,
       case when n % 6 = 0 then 1 end,
       case when n % 7 = 0 then 6 end,
       case when n % 8 = 0 then 0 when n % 8 = 1 then n end,
       case when n % 9 = 0 then 1e6 end,
       case when n % 10 = 0 then 1999 end,
       n % 15 <> 0
  from generate_series(1, 60) n;

-- One complete row.
update partner set city = 'Ghent', country_id = 5, industry_id = 3, x_employees = 9, x_turnover = 1, x_founded_year = 2001
 where id = 14;

-- 150 people, most with a company as their parent, some with a typed company name; is_company is often not set.
insert into partner (name, is_company, parent_id, company_name, "function", email, phone, x_linkedin, x_department, x_seniority, active)
select (array['Kim', 'Lee', 'Sam', 'Ola'])[1 + n % 4] || ' Nr ' || n,
       case when n % 2 = 0 then false end,
       case when n % 4 > 0 then 1 + n % 60 end,
       case when n % 8 = 0 then 'Typed Company ' || n % 3 when n % 8 = 4 then ' ' end,
       case when n % 6 = 0 then 'Buyer' when n % 6 = 1 then '-' when n % 6 = 2 then '' end,
       case when n % 9 = 0 then null
            when n % 9 = 1 then 'nr' || n || '@firm' || 1 + n % 60 || '.example, kim@firm.example'
            when n % 9 = 2 then 'nr' || n || ' @firm.example'
            when n % 9 = 3 then 'NR' || n + 1 || '@Firm1.example'
            when n % 9 = 4 then 'nr' || n || '@firm1.example '
            else 'nr' || n || '@firm' || 1 + n % 60 || '.example' end,
       case when n % 5 = 0 then '+46 8 000 ' || n end,
       case when n % 12 = 0 then 'https://linkedin.com/in/nr-' || n end,
       case when n % 7 = 0 then 'Purchase' end,
       case when n % 10 = 0 then 'boss' end,
       n % 14 <> 0
  from generate_series(1, 150) n;
-- Two complete rows.
update partner
   set "function" = 'Porter', phone = '1', x_linkedin = 'https://linkedin.com/in/whole', x_department = 'Door', x_seniority = 'none'
 where id in (65, 66);

-- Delivery and invoice addresses: not people, though they look the same.
insert into partner (name, type, parent_id, email, street)
select 'Goods in ' || n, (array['delivery', 'invoice'])[1 + n % 2], n, 'goods@firm' || n || '.example', 'Gate ' || n
  from generate_series(1, 20) n;

analyze partner;
