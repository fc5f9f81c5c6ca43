-- Keys of 17 characters and no foreign keys: only the application knows the relations.
-- Email addresses are entities of their own, linked to their owner.
create table account (
  id varchar(17) primary key,
  name varchar(249),
  deleted boolean not null default false,
  website varchar(255),
  type varchar(32),
  industry varchar(64),
  employees integer,
  founded_year integer,
  annual_revenue double precision,
  billing_address_street varchar(255),
  billing_address_city varchar(100),
  billing_address_state varchar(100),
  billing_address_country varchar(100),
  created_at timestamp,
  modified_at timestamp,
  created_by_id varchar(17),
  assigned_user_id varchar(17)
);
create index on account (modified_at);

create table contact (
  id varchar(17) primary key,
  deleted boolean not null default false,
  salutation_name varchar(16),
  first_name varchar(100),
  last_name varchar(100),
  account_id varchar(17),
  title varchar(100),
  department varchar(100),
  seniority varchar(32),
  phone_number varchar(36),
  linkedin_url varchar(255),
  description text,
  do_not_call boolean not null default false,
  created_at timestamp,
  modified_at timestamp,
  created_by_id varchar(17),
  assigned_user_id varchar(17)
);
create index on contact (account_id);
create index on contact (modified_at);

create table email_address (
  id varchar(17) primary key,
  address varchar(255) not null,
  lower varchar(255) not null,
  deleted boolean not null default false,
  invalid boolean not null default false,
  opt_out boolean not null default false
);
create index on email_address (lower);

create table entity_email_address (
  id bigint generated always as identity primary key,
  entity_id varchar(17) not null,
  entity_type varchar(100) not null,
  email_address_id varchar(17) not null,
  "primary" boolean not null default false,
  deleted boolean not null default false,
  unique (entity_id, entity_type, email_address_id)
);
create index on entity_email_address (email_address_id);
