import type { OnDelete } from '../domain/deleted-row.ts'
import type { NameDetail, NextWhen, WritePolicy, SourceKind } from '../domain/mapping.ts'
import type { RecordField } from '../domain/record-fields.ts'
import type { SourceBudget } from '../domain/spend.ts'

interface OutputOptions {
  /** What happens to a column that already holds a value. Default: `blank`, only blank columns are written. */
  readonly policy?: WritePolicy
  /** Records of a lower confidence (0 to 1) are not written to this column. Default: the source's. */
  readonly minConfidence?: number
  /** From values of the field to values of the column. Other values are skipped. */
  readonly map?: Readonly<Record<string, string | number | boolean>>
  /** An SQL expression over `$value` (the field as text), `$json` (as jsonb) and `$confidence`. */
  readonly sql?: string
  /**
   * Outputs with the same group are written together or not at all: a cell that a person typed, or a value that does not fit, keeps
   * the others from being written. A field that the record lacks does not.
   */
  readonly group?: string
  /** Only matching values are written. A string is a regular expression without its slashes. */
  readonly matches?: RegExp | string
}

/** A field of the record, alone or with options. */
export type OutputConfig<Kind extends SourceKind, Field extends string = RecordField<Kind>> =
  | Field
  | (OutputOptions & {
      /** A field of the record. A dot leads into an object: `company.domain`. */
      readonly field: Field
      /** Takes a field that the service does not document. */
      readonly unlisted?: false
    })
  | (OutputOptions & { readonly field: string; readonly unlisted: true })

/** By service: what each fills the column with. A service that is left out does not fill it. */
type OutputByService<Kind extends SourceKind, ServiceName extends string> = [ServiceName] extends [never]
  ? never
  : { readonly [Name in ServiceName]?: OutputConfig<Kind, string> }

/** SQL expressions over the source's table, `t`. The first usable of email, profile URL, name with company is looked up. */
type PersonInputs = {
  /** An email address. */
  readonly email?: string
  /** The URL of a personal LinkedIn profile. */
  readonly linkedin_url?: string
} & ((NameInputs & CompanyOfPersonInputs) | { readonly [Input in NamedInput]?: never })

type NamedInput = 'name' | 'company' | NameDetail

type NameInputs =
  | {
      /** The full name. Together with `company` or `company_domain`. Default: `first_name` and `last_name`, joined. */
      readonly name: string
      /** Sent beside the name to services that take it. */
      readonly first_name?: string
      /** Sent beside the name to services that take it. */
      readonly last_name?: string
    }
  | { readonly name?: never; readonly first_name: string; readonly last_name: string }

type CompanyOfPersonInputs =
  | {
      /** The name of the company. Together with a name. */
      readonly company: string
      /** A domain or a URL of the company, sent to services that take it. They need no `company` then. */
      readonly company_domain?: string
    }
  | { readonly company?: never; readonly company_domain: string }

interface CompanyInputs {
  /** A domain or a URL. */
  readonly domain: string
}

interface SourceConfig<Kind extends SourceKind, Field extends string, ServiceName extends string> {
  /** What a row describes; decides the available inputs and fields. */
  readonly kind: Kind
  /** With its schema if needed, quoted if needed: `crm.contacts`, `"Contacts"`. Named `t` in every expression. */
  readonly table: string
  /** Joins for the expressions: `left join crm.accounts a on a.id = t.account_id`. */
  readonly joins?: string
  /** The columns that identify a row. Default: the primary key. */
  readonly key?: string | readonly string[]
  /**
   * Which rows are eligible: `t.deleted_at is null`. A row must meet each condition of a list; `fillrate plan`
   * shows what each one leaves out. Default: all.
   */
  readonly where?: string | readonly string[]
  /**
   * A timestamptz that moves when a row changes, so that a pass reads only changes. For a timestamp without time zone or a
   * date, 12 hours more are read, because the time zone of its writers is unknown.
   */
  readonly changedAt?: string
  /**
   * What keeps when a row was enriched last, by whatever did it: `column` or `read`. It replaces a condition on that time in
   * `where`.
   */
  readonly freshness?:
    | {
        /**
         * A timestamptz, timestamp or date, or a key inside a jsonb column. A row whose value is younger than `refreshAfter`
         * counts as enriched, whatever enriched it, and is not picked. Each write sets it to now().
         */
        readonly column: string
      }
    | {
        /**
         * In place of `column`: an expression for such a time that this source does not write, of a joined table for instance.
         * A time that Fillrate itself has set there, by another source, does not count.
         */
        readonly read: string
      }
  /** Live sync: `fillrate start` enriches its rows as they change. Default: false. */
  readonly follow?: boolean
  /**
   * What happens to what is stored of a row that was deleted from the table. `forget`: its record, changes and
   * deliveries are erased an hour later, unless another row needs them. `keep`: they stay, for `explain` and `undo`.
   * Either way it is in no count. Default: `forget`.
   */
  readonly onDelete?: OnDelete
  /**
   * The most lookups for this source in a run, and in a day of live sync: a number, or a share of that budget, `30%`.
   * Default: what the other sources leave.
   */
  readonly budget?: SourceBudget
  /**
   * How fast its rows are written, `{ perHour: 5_000 }`, for a table whose writes are uploaded elsewhere, by Heroku Connect for
   * instance. Of runs, live sync and remap in all processes together; lookups go on meanwhile, and an undo is not slowed down.
   * Default: as fast as possible.
   */
  readonly writes?: {
    /** The most rows in an hour, from 60 on: a sixtieth of them at once, and the others evenly. */
    readonly perHour: number
  }
  /** Records of a lower confidence (0 to 1) are not used. Default: 0. */
  readonly minConfidence?: number
  /** A row whose lookup finds nothing goes on to its next identifier. Default: false. */
  readonly cascade?: boolean
  /**
   * False in what `fillrate init` has written: `fillrate plan` counts its rows, and nothing of it is looked up or
   * written until a person has read it and taken this out. Default: true.
   */
  readonly reviewed?: boolean
  /**
   * Which of the services serve its rows, in this order. Default: all that take one of its inputs and fill one of its
   * columns, in the order of `services`.
   */
  readonly services?: ReadonlyArray<
    | ServiceName
    | {
        /** A service of `services`. */
        readonly name: ServiceName
        /**
         * Which rows go on to it from the service before. `miss`: those that it found nothing for, or too little confidence, or
         * had no input of; `blank`: also those with a column to be filled that is still blank, and then only blank ones are
         * filled, whatever the policy, and `tracked` ones that no service before fills. Default: `miss`.
         */
        readonly when?: NextWhen
        /** Its records of a lower confidence (0 to 1) are not used. Default: the source's. */
        readonly minConfidence?: number
      }
  >
  /**
   * Columns to fill, each with the field of the record that fills it; with several services, that of each by its name, where they
   * differ. `attributes.department` is a key inside a jsonb column.
   */
  readonly outputs: Readonly<Record<string, OutputConfig<Kind, Field> | OutputByService<Kind, ServiceName>>>
  /** Columns to set only when an output is written: `{ enriched_at: 'now()' }`. */
  readonly touch?: Readonly<Record<string, string>>
}

/** A table whose rows are people. */
export interface PersonSource<
  Field extends string = RecordField<'person'>,
  ServiceName extends string = never,
> extends SourceConfig<'person', Field, ServiceName> {
  /** SQL expressions over the source's table, `t`, that identify a row. */
  readonly inputs: PersonInputs
}

/** A table whose rows are companies. */
export interface CompanySource<
  Field extends string = RecordField<'company'>,
  ServiceName extends string = never,
> extends SourceConfig<'company', Field, ServiceName> {
  /** SQL expressions over the source's table, `t`, that identify a row. */
  readonly inputs: CompanyInputs
}
