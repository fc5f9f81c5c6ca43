-- Composite fields, each part a column in camelCase; uuid keys, enums, a generated search column, soft delete.
create schema "workspace_k3x9";

create type "workspace_k3x9"."personSeniority" as enum
  ('OWNER', 'C_LEVEL', 'VP', 'DIRECTOR', 'MANAGER', 'SENIOR', 'JUNIOR', 'INTERN');
create type "workspace_k3x9"."companyIndustry" as enum
  ('SOFTWARE', 'MANUFACTURING', 'FINANCIAL_SERVICES', 'HEALTH_CARE', 'RETAIL', 'TRANSPORTATION', 'ENERGY', 'OTHER');
create type "workspace_k3x9"."createdBySource" as enum ('MANUAL', 'IMPORT', 'API', 'EMAIL');

create table "workspace_k3x9"."company" (
  "id" uuid primary key default gen_random_uuid(),
  "createdAt" timestamptz not null default now(),
  "updatedAt" timestamptz not null default now(),
  "deletedAt" timestamptz,
  "createdBySource" "workspace_k3x9"."createdBySource" not null default 'MANUAL',
  "position" double precision not null default 0,
  "name" text not null default '',
  "domainPrimaryUrl" text,
  "domainPrimaryLabel" text,
  "linkedinPrimaryUrl" text,
  "industry" "workspace_k3x9"."companyIndustry",
  "employees" integer,
  "foundedYear" smallint,
  "annualRevenueAmountMicros" bigint,
  "annualRevenueCurrencyCode" char(3),
  "addressStreet" text,
  "addressCity" text,
  "addressState" text,
  "addressCountry" text,
  "techStack" text[],
  "idealCustomerProfile" boolean not null default false,
  "searchVector" tsvector generated always as
    (to_tsvector('simple', "name" || ' ' || coalesce("domainPrimaryUrl", ''))) stored
);
create index on "workspace_k3x9"."company" using gin ("searchVector");
create index on "workspace_k3x9"."company" ("updatedAt") where "deletedAt" is null;

create table "workspace_k3x9"."person" (
  "id" uuid primary key default gen_random_uuid(),
  "createdAt" timestamptz not null default now(),
  "updatedAt" timestamptz not null default now(),
  "deletedAt" timestamptz,
  "createdBySource" "workspace_k3x9"."createdBySource" not null default 'MANUAL',
  "position" double precision not null default 0,
  "nameFirstName" text not null default '',
  "nameLastName" text not null default '',
  "emailPrimary" text,
  "emailAdditional" jsonb,
  "linkedinPrimaryUrl" text,
  "linkedinPrimaryLabel" text,
  "jobTitle" text,
  "seniority" "workspace_k3x9"."personSeniority",
  "department" text,
  "phonePrimaryNumber" text,
  "phonePrimaryCallingCode" text,
  "avatarUrl" text,
  "companyId" uuid references "workspace_k3x9"."company" on delete set null,
  "searchVector" tsvector generated always as
    (to_tsvector('simple', "nameFirstName" || ' ' || "nameLastName" || ' ' || coalesce("jobTitle", ''))) stored
);
create index on "workspace_k3x9"."person" using gin ("searchVector");
create index on "workspace_k3x9"."person" ("companyId");
create index on "workspace_k3x9"."person" ("updatedAt");
create unique index on "workspace_k3x9"."person" ("emailPrimary") where "deletedAt" is null;
