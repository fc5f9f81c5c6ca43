-- People and companies, with what is known about them in rows of other tables.
create schema crm;

create table crm.company (
  id bigint generated always as identity primary key,
  name text not null,
  website text,
  industry text,
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);

create table crm.person (
  id bigint generated always as identity primary key,
  full_name text not null,
  linkedin text,
  phone text,
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);

-- The link row: who works where, and as what.
create table crm.employment (
  person_id bigint not null references crm.person,
  company_id bigint not null references crm.company,
  is_current boolean not null default true,
  job_title text,
  department text,
  primary key (person_id, company_id)
);
create unique index on crm.employment (person_id) where is_current;

-- The email row: one of each kind.
create table crm.email (
  id bigint generated always as identity primary key,
  person_id bigint not null references crm.person,
  kind text not null default 'work' check (kind in ('work', 'private')),
  address text,
  unique (person_id, kind)
);

-- The address row, of a person or a company.
create table crm.address (
  id bigint generated always as identity primary key,
  owner_type text not null check (owner_type in ('person', 'company')),
  owner_id bigint not null,
  street text,
  city text,
  state text,
  country text
);
create index on crm.address (owner_id, owner_type);
