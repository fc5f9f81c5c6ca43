-- Keys of this kind of system: hexadecimal, 17 characters.
create function pg_temp.id(what text, n int) returns varchar immutable language sql as $$
  select left(md5(what || ' ' || n), 17)
$$;

insert into account (id, name, deleted, website, type, industry, employees, founded_year, annual_revenue, billing_address_city,
                     billing_address_state, billing_address_country, created_at, modified_at)
select pg_temp.id('account', n), 'House ' || n, n % 10 = 9,
       case n % 7 when 0 then null when 1 then '' when 2 then 'https://instagram.facebook.com/house' || n
                  when 3 then 'HOUSE' || n || '.example' when 4 then 'https://house' || n - 1 || '.example/'
                  else 'http://www.house' || n || '.example/om-oss' end,
       (array['Customer', 'Partner', null])[1 + n % 3],
       case when n % 4 = 0 then 'Boats' when n % 4 = 1 then '' end,
       case when n % 5 = 0 then n end,
       case when n % 6 = 0 then 1960 end,
       case when n % 8 = 0 then 12.5 end,
       case when n % 3 = 0 then 'Larvik' end,
       case when n % 3 = 1 then ' ' end,
       case when n % 9 = 0 then 'Norway' end,
       timestamp '2023-01-01 08:00', timestamp '2023-01-01 08:00' + n * interval '1 hour'
  from generate_series(1, 80) n;

insert into contact (id, deleted, first_name, last_name, account_id, title, department, seniority, phone_number, linkedin_url,
                     created_at, modified_at)
select pg_temp.id('contact', n), n % 12 = 5,
       case when n % 30 = 0 then null else (array['Mia', 'Nils', 'Oda', 'Per'])[1 + n % 4] end,
       case when n % 30 = 0 then null else 'Nr ' || n end,
       case when n % 4 > 0 then pg_temp.id('account', 1 + n % 80) end,
       case when n % 5 = 0 then 'Captain' when n % 5 = 1 then '' when n % 5 = 2 then e'\u00a0' end,
       case when n % 7 = 0 then 'Bridge' end,
       case when n % 9 = 0 then '0' end,
       case when n % 6 = 0 then '22 33 44 ' || n end,
       case n % 10 when 0 then 'https://www.linkedin.com/in/nr-' || n when 1 then 'http://se.linkedin.com/in/NR-' || n || '?x=y'
                   when 2 then 'nr-' || n end,
       timestamp '2023-01-01 08:00', timestamp '2023-01-01 08:00' + n * interval '1 hour'
  from generate_series(1, 180) n;

-- An address for two of three contacts; every sixth has a second, non-primary one.
insert into email_address (id, address, lower, deleted, invalid)
select pg_temp.id('email', n), address, lower(address), n % 40 = 0, n % 50 = 0
  from (select n, case n % 15 when 1 then 'nr' || n || '@house' when 2 then 'nr' || n || '@house.example, post@house.example'
                              when 4 then 'Nr' || n || '@House.Example' when 5 then 'nr' || n - 1 || '@house.example'
                              else 'nr' || n || '@house' || 1 + n % 80 || '.example' end as address
          from generate_series(1, 180) n where n % 3 > 0) as made;
insert into email_address (id, address, lower)
select pg_temp.id('second email', n), 'private' || n || '@mail.example', 'private' || n || '@mail.example'
  from generate_series(6, 180, 6) n;
insert into entity_email_address (entity_id, entity_type, email_address_id, "primary", deleted)
select pg_temp.id('contact', n), 'Contact', pg_temp.id('email', n), true, n % 35 = 0
  from generate_series(1, 180) n where n % 3 > 0;
insert into entity_email_address (entity_id, entity_type, email_address_id, "primary")
select pg_temp.id('contact', n), 'Contact', pg_temp.id('second email', n), false
  from generate_series(6, 180, 6) n;
-- Accounts have an address, too.
insert into email_address (id, address, lower)
select pg_temp.id('office email', n), 'office@house' || n || '.example', 'office@house' || n || '.example' from generate_series(1, 30) n;
insert into entity_email_address (entity_id, entity_type, email_address_id, "primary")
select pg_temp.id('account', n), 'Account', pg_temp.id('office email', n), true from generate_series(1, 30) n;

update contact set do_not_call = true where id in (select pg_temp.id('contact', n) from generate_series(17, 180, 40) n);
update email_address set opt_out = true where id in (select pg_temp.id('email', n) from generate_series(7, 180, 45) n);

-- Two complete rows.
update contact
   set title = 'a', department = 'b', seniority = 'c', phone_number = 'd'
 where id in (pg_temp.id('contact', 4), pg_temp.id('contact', 8));

analyze account, contact, email_address, entity_email_address;
