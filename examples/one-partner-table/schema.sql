-- People and companies in one table: a person has a parent, the company; an address of a company is a row of its own.
create table country (
  id serial primary key,
  code char(2) not null unique,
  name varchar(60) not null unique
);

create table partner_industry (
  id serial primary key,
  name varchar(80) not null unique
);

create table partner (
  id serial primary key,
  name varchar(160) not null,
  display_name varchar(330) generated always as (name) stored,
  is_company boolean,
  type varchar(16) not null default 'contact',
  parent_id integer references partner on delete set null,
  company_name varchar(160),
  "function" varchar(80),
  email varchar(254),
  phone varchar(32),
  mobile varchar(32),
  website varchar(200),
  vat varchar(20),
  street varchar(120),
  zip varchar(24),
  city varchar(80),
  country_id integer references country,
  industry_id integer references partner_industry,
  lang varchar(8),
  comment text,
  color integer not null default 0,
  x_linkedin varchar(200),
  x_department varchar(40),
  x_seniority varchar(16),
  x_employees integer,
  x_turnover numeric(16, 2),
  x_founded_year integer,
  active boolean not null default true,
  create_date timestamp not null default (now() at time zone 'UTC'),
  write_date timestamp not null default (now() at time zone 'UTC')
);
create index on partner (parent_id);
create index on partner (write_date);
