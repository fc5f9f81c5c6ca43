set search_path = "workspace_k3x9";

insert into "company" ("id", "name", "domainPrimaryUrl", "linkedinPrimaryUrl", "industry", "employees", "foundedYear",
                       "annualRevenueAmountMicros", "addressCity", "addressCountry", "techStack", "deletedAt")
select md5('company ' || n)::uuid, 'Blue ' || n,
       case n % 10 when 0 then null when 1 then '' when 2 then 'http://localhost:3000' when 3 then '10.0.0.' || n
                   when 4 then 'https://BLUE' || n || '.example' when 5 then 'blue' || n - 1 || '.example/careers'
                   else 'https://www.blue' || n || '.example/' end,
       case when n % 9 = 0 then 'https://www.linkedin.com/company/blue-' || n end,
       case when n % 5 = 0 then 'OTHER'::"companyIndustry" end,
       case when n % 6 = 0 then n end,
       case when n % 8 = 0 then 2010 end,
       case when n % 7 = 0 then 5000000 * n::bigint end,
       case when n % 4 = 0 then 'Bergen' when n % 4 = 1 then ' ' end,
       case when n % 4 = 0 then 'NO' end,
       case when n % 5 = 0 then array['Fax'] when n % 5 = 1 then '{}' end,
       case when n % 11 = 0 then now() - interval '1 year' end
  from generate_series(1, 70) n;

insert into "person" ("id", "nameFirstName", "nameLastName", "emailPrimary", "emailAdditional", "linkedinPrimaryUrl", "jobTitle",
                      "seniority", "department", "phonePrimaryNumber", "phonePrimaryCallingCode", "companyId", "deletedAt")
select md5('person ' || n)::uuid,
       case when n % 25 = 0 then '' else (array['Ida', 'Jon', 'Liv'])[1 + n % 3] end,
       case when n % 25 = 0 then '' else 'Nr ' || n end,
       case n % 12 when 0 then null when 1 then 'nr' || n || '@@blue.example' when 2 then 'nr' || n || '@blue'
                   when 3 then 'Nr' || n || '@Blue1.Example' when 4 then ' nr' || n - 1 || '@blue1.example'
                   when 5 then null else 'nr' || n || '+crm@blue' || 1 + n % 70 || '.example' end,
       case when n % 4 = 0 then jsonb_build_array('old' || n || '@blue.example') end,
       case n % 12 when 0 then 'https://www.linkedin.com/in/nr-' || n || '/details/experience/' when 1 then 'linkedin.com/in/nr-' || n
                   when 2 then 'https://example.com/in/nr-' || n end,
       case when n % 6 = 0 then 'Engineer' when n % 6 = 1 then '' end,
       case when n % 8 = 0 then 'JUNIOR'::"personSeniority" end,
       case when n % 9 = 0 then 'R&D' when n % 9 = 1 then e'\t' end,
       case when n % 5 = 0 then '900 00 ' || n end,
       case when n % 10 = 0 then '+47' when n % 10 = 1 then '+46' end,
       case when n % 5 > 1 then md5('company ' || 1 + n % 70)::uuid end,
       case when n % 13 = 0 then now() - interval '2 days' end
  from generate_series(1, 200) n;

-- Two complete rows.
update "person"
   set "jobTitle" = 'Baker', "seniority" = 'OWNER', "department" = 'Bread', "phonePrimaryNumber" = '1', "phonePrimaryCallingCode" = '+47'
 where "id" in (md5('person 9')::uuid, md5('person 19')::uuid);
update "company"
   set "linkedinPrimaryUrl" = 'x', "industry" = 'ENERGY', "employees" = 1, "foundedYear" = 1900, "annualRevenueAmountMicros" = 0,
       "addressCity" = 'a', "addressState" = 'b', "addressCountry" = 'c', "techStack" = '{Ink}'
 where "id" = md5('company 17')::uuid;

analyze "person", "company";
