create or replace view expected.rows as
select 'people' as source, t."id"::text as key, t."emailPrimary" as email, t."linkedinPrimaryUrl" as profile,
       t."nameFirstName" || ' ' || t."nameLastName" as name,
       (select c."name" from "workspace_k3x9"."company" c where c."id" = t."companyId" and c."deletedAt" is null) as company,
       null::text as domain,
       jsonb_build_object('jobTitle', t."jobTitle", 'seniority', t."seniority", 'department', t."department",
         'phonePrimaryCallingCode', t."phonePrimaryCallingCode", 'phonePrimaryNumber', t."phonePrimaryNumber") as cells
  from "workspace_k3x9"."person" t
 where t."deletedAt" is null
union all
select 'companies', t."id"::text, null, null, null, null, t."domainPrimaryUrl",
       jsonb_build_object('linkedinPrimaryUrl', t."linkedinPrimaryUrl", 'industry', t."industry", 'employees', t."employees",
         'foundedYear', t."foundedYear", 'annualRevenueAmountMicros', t."annualRevenueAmountMicros",
         'addressCity', t."addressCity", 'addressState', t."addressState", 'addressCountry', t."addressCountry",
         'techStack', t."techStack")
  from "workspace_k3x9"."company" t
 where t."deletedAt" is null;
