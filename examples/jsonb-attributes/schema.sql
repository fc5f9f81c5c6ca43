-- People and organisations of every tenant in the same two tables; tenant-specific attributes are in a jsonb column.
create schema app;

create table app.tenants (
  id uuid primary key,
  name text not null
);

create table app.organizations (
  tenant_id uuid not null references app.tenants,
  id bigint not null,
  name text not null,
  attributes jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  is_deleted boolean not null default false,
  primary key (tenant_id, id)
);

create table app.people (
  tenant_id uuid not null references app.tenants,
  id bigint not null,
  organization_id bigint,
  display_name text,
  attributes jsonb not null default '{}',
  score integer not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  is_deleted boolean not null default false,
  primary key (tenant_id, id),
  foreign key (tenant_id, organization_id) references app.organizations
);
create index on app.people using gin (attributes);
create index on app.people (tenant_id, updated_at);
