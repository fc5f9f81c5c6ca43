import { expect, test } from 'vitest'
import { hashMigrations, readFrozenMigrations } from '../../../scripts/frozen-migrations.ts'

const present = hashMigrations()

const WHAT_TO_DO = `Databases have applied this migration, and do not see a change of it; those that have made other statements of 0001 are refused.
Undo the change and write a new migration: docs/versions.md, "How the schema changes".
Only as long as 1.0.0 is not published: put the new hash into test/fixtures/migrations.json.`

test('the first migration is frozen', () => {
  expect(Object.keys(readFrozenMigrations())).toContain('0001_schema.ts')
})

test.each(Object.entries(readFrozenMigrations()))('%s is what databases have applied', (file, hash) => {
  expect(present[file], `${WHAT_TO_DO}`).toBe(hash)
})
