import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'

const FOLDER = new URL('../migrations/', import.meta.url)
export const HASHES_URL = new URL('../test/fixtures/migrations.json', import.meta.url)

type Hashes = Readonly<Record<string, string>>

/** The SHA-256 of each migration, by its file. */
export const hashMigrations = (): Hashes =>
  Object.fromEntries(
    readdirSync(FOLDER)
      .toSorted()
      .map((file) => [
        file,
        createHash('sha256')
          .update(readFileSync(new URL(file, FOLDER)))
          .digest('hex'),
      ]),
  )

/** Those that databases of released versions have applied. */
export const readFrozenMigrations = (): Hashes => JSON.parse(readFileSync(HASHES_URL, 'utf8')) as Hashes
