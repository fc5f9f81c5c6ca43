-- Contacts and accounts, with a link table between them and one table of addresses for both.
create schema crm;

create table crm.accounts (
  id bigint generated always as identity primary key,
  name varchar(120) not null,
  website varchar(200),
  category varchar(32),
  rating smallint not null default 0,
  phone varchar(40),
  industry varchar(60),
  employees integer,
  annual_revenue numeric(14, 2),
  founded_year smallint,
  linkedin_url varchar(200),
  technologies text[],
  background text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index on crm.accounts (updated_at);

create table crm.contacts (
  id bigint generated always as identity primary key,
  first_name varchar(64) not null default '',
  last_name varchar(64) not null default '',
  title varchar(64),
  department varchar(40),
  email varchar(254),
  alt_email varchar(254),
  phone varchar(24),
  mobile varchar(24),
  fax varchar(24),
  linkedin varchar(200),
  do_not_call boolean not null default false,
  born_on date,
  background text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index on crm.contacts (updated_at);

create table crm.account_contacts (
  id bigint generated always as identity primary key,
  account_id bigint not null references crm.accounts,
  contact_id bigint not null references crm.contacts,
  ended_at date,
  unique (account_id, contact_id)
);
create index on crm.account_contacts (contact_id);

-- Owner of the address: 'Account' or 'Contact', and its id.
create table crm.addresses (
  id bigint generated always as identity primary key,
  owner_type varchar(20) not null,
  owner_id bigint not null,
  kind varchar(16) not null default 'office',
  street varchar(120),
  postal_code varchar(16),
  city varchar(60),
  state varchar(60),
  country varchar(60),
  deleted_at timestamptz
);
create index on crm.addresses (owner_type, owner_id);
