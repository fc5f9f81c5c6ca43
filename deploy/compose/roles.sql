-- Two roles, as in docs/security.md: one owns the schema `fillrate`, the other works. Runs after crm.sql.
\getenv password POSTGRES_PASSWORD
create role fillrate_owner login password :'password';
create role fillrate_app login password :'password';
grant create on database crm to fillrate_owner;
alter default privileges for role fillrate_owner grant usage on schemas to fillrate_app;
alter default privileges for role fillrate_owner grant select, insert, update, delete on tables to fillrate_app;

grant usage on schema crm to fillrate_app;
grant select on all tables in schema crm to fillrate_app;
grant update (title, phone, seniority, department, enriched_at) on crm.contacts to fillrate_app;
grant update (industry, employees, city) on crm.accounts to fillrate_app;
