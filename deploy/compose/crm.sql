-- A sample CRM: fictitious people and companies with gaps, typed values that must stay, and invalid addresses.
create schema crm;

create table crm.accounts (
  id bigint generated always as identity primary key,
  name text not null,
  website text,
  industry text,
  employees integer,
  city text
);

create table crm.contacts (
  id bigint generated always as identity primary key,
  account_id bigint references crm.accounts,
  first_name text,
  last_name text,
  email text,
  title text,
  phone text,
  seniority text,
  department text,
  enriched_at timestamptz
);

insert into crm.accounts (name, website, industry, city)
select 'Company ' || n,
       case when n % 12 = 0 then null when n % 3 = 0 then 'https://www.company' || n || '.example/about'
            else 'company' || n || '.example' end,
       case when n % 5 = 0 then 'typed by hand' end,
       case when n % 2 = 0 then 'Oslo' end
  from generate_series(1, 600) n;

insert into crm.contacts (account_id, first_name, last_name, email, title, phone)
select 1 + n % 600,
       (array['Ada', 'Bjørn', 'Chen', 'Dalia', 'Emeka', 'Freya', 'Goran', 'Hana'])[1 + n % 8],
       (array['Hansen', 'Okafor', 'Silva', 'Tanaka', 'Weber', 'Novak', 'Lund'])[1 + n % 7],
       case when n % 40 = 0 then 'not an address'
            when n % 15 = 0 then null
            -- Every tenth person is in the CRM twice.
            when n % 10 = 1 then 'Person' || (n - 1) || '@Example.com'
            else 'person' || n || '@example.com' end,
       case when n % 6 = 0 then 'typed by hand' end,
       case when n % 9 = 0 then '+47 22 00 00 00' end
  from generate_series(1, 5000) n;
