import type { Column } from '../catalogue.ts'
import { nameInSql } from './field.ts'
import type { Surveyed } from './survey.ts'

/** What would make a pass cost what has changed. */
export const changedAtAdvice = ({ inSql }: Pick<Surveyed, 'inSql'>, { name }: Pick<Column, 'name'>): string =>
  `With an index, a pass costs what has changed: create index concurrently on ${inSql} (${nameInSql(name)}); ` +
  `then add changedAt: 't.${nameInSql(name)}'`
