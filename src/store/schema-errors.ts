import { FillrateError } from '../util/error-text.ts'
import { readVersion } from '../util/version.ts'

/** Other sessions hold a table of the schema that a migration has to lock. Nothing was changed. */
export class MigrationBlockedError extends FillrateError {
  override readonly name = 'MigrationBlockedError'

  constructor(blockers: readonly string[], patienceMs: number) {
    const by = blockers.length === 0 ? 'sessions that have since ended' : blockers.join('; ')
    super(
      `the schema "fillrate" could not be upgraded for ${patienceMs / 1_000} s, because its tables are held by ${by}. Nothing was changed. Wait until these transactions have ended, or end them with pg_terminate_backend, then run \`fillrate migrate\` again`,
    )
  }
}

/** The schema `fillrate` is missing, or older than this version. */
export class SchemaMissingError extends FillrateError {
  override readonly name = 'SchemaMissingError'
  constructor() {
    super(
      'the schema "fillrate" is missing in this database, or older than this version. Run `fillrate migrate` first',
    )
  }
}

/** This version cannot work with the schema, and no migration of its own changes that. */
export class UnusableSchemaError extends FillrateError {
  override readonly name = 'UnusableSchemaError'
  readonly found: string
  readonly todo: string

  private constructor(found: string, todo: string) {
    super(`the schema "fillrate" was ${found}. Nothing was changed. ${todo}`)
    this.found = found
    this.todo = todo
  }

  static preRelease(): UnusableSchemaError {
    return new UnusableSchemaError(
      'created by a version before the first release, and cannot be upgraded',
      'Keep a copy if you need its records or its change history (`pg_dump --schema=fillrate`), run `drop schema fillrate cascade` in the database, then `fillrate migrate`, and `fillrate follow install SOURCE` for each source with triggers',
    )
  }

  static newer(migration: string, from: string): UnusableSchemaError {
    return new UnusableSchemaError(
      `upgraded by a newer version (${migration}), and works with version ${from} and later; this is ${readVersion()}`,
      `Start version ${from} or later, or restore a backup of the schema from before that upgrade`,
    )
  }
}

/** Processes of versions that a pending migration ends the support of. Nothing was changed. */
export class OldProcessesError extends FillrateError {
  override readonly name = 'OldProcessesError'

  constructor(migration: string, from: string, processes: readonly string[]) {
    super(
      `the schema "fillrate" was not upgraded: ${migration} takes away what versions before ${from} use, and ${processes.join('; ')} still run. Nothing was changed. Stop them, or replace them by version ${from} or later, then run \`fillrate migrate\` again`,
    )
  }
}

/** The role may not change what a migration has to change. Nothing was changed. */
export class MigrationDeniedError extends FillrateError {
  override readonly name = 'MigrationDeniedError'

  static notOwner(role: string, owner: string, cause: Error): MigrationDeniedError {
    return new MigrationDeniedError(
      `the role ${role} may not upgrade the schema "fillrate", which belongs to ${owner} (${cause.message}). Nothing was changed. Run \`fillrate migrate\` as ${owner}`,
      { cause },
    )
  }

  static lacks(
    privileges: string,
    { role, quoted, owner }: Readonly<Record<'role' | 'quoted' | 'owner', string>>,
    cause: Error,
  ): MigrationDeniedError {
    return new MigrationDeniedError(
      `the role ${role} lacks ${privileges} on the schema "fillrate", which belongs to ${owner}. Nothing was changed. Run as ${owner}: GRANT ${privileges} ON SCHEMA fillrate TO ${quoted}; then run \`fillrate migrate\` again`,
      { cause },
    )
  }
}

/**
 * The oldest version that works with what a migration leaves. The name says it, because older programs know nothing else
 * of the migration: `0003_from_1_2_no_scope` requires version 1.2. Null: it only adds.
 */
export function supportedFrom(migration: string): string | null {
  const [, major, minor] = /^\d{4}_from_(\d+)_(\d+)_/.exec(migration) ?? []
  return major === undefined ? null : `${major}.${minor}`
}

export function isOlder(version: string, from: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [fromMajor = 0, fromMinor = 0] = from.split('.').map(Number)
  return major < fromMajor || (major === fromMajor && minor < fromMinor)
}

/** @throws UnusableSchemaError if one of these migrations has ended the support of this version */
export function refuseEndedSupport(migrations: readonly string[]): void {
  for (const name of migrations) {
    const from = supportedFrom(name)
    if (from !== null && isOlder(readVersion(), from)) throw UnusableSchemaError.newer(name, from)
  }
}
