import { expect, test } from 'vitest'
import { openSource } from '../../../src/sources/source.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { write } from './writing.ts'

const database = useTestDatabase()

// So many that the update looks up each row by its key: a hash join would evaluate all of them first in any case.
const PEOPLE = `
  create table people (id int primary key, email text, title text, n int);
  insert into people select n, n || '@x.no' from generate_series(1, 2000) as n;
  analyze people`

test('all rows are locked and evaluated before the first is updated', async () => {
  await database.query(`${PEOPLE};
    create function next_row() returns trigger language plpgsql as $$ begin
      if pg_trigger_depth() = 1 then update people set n = 9 where id = new.id + 1; end if;
      return new;
    end $$;
    create trigger next_row before update on people for each row execute function next_row();
    create function titled() returns text language plpgsql volatile as $$ begin
      return (select count(*) from people where title is not null);
    end $$`)
  const source = await openSource(
    database.db,
    mapping({ outputs: [output('title', 'title', { sql: `$value || titled()` })] }),
  )
  // Tried apart, each row is locked after those before it.
  expect(await write(database, source, ['1', '3', '5'], { title: 'x' })).toMatchObject(
    ['x0', 'x0', 'x0'].map((title) => ({ outcome: 'written', after: { title } })),
  )
  expect(await write(database, source, ['10', '11', '12'], { title: 'x' })).toMatchObject(
    ['written', 'written', 'written'].map((outcome) => ({ outcome })),
  )
})
