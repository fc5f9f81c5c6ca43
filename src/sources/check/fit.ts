import { shapeOfField } from '../../domain/record-fields.ts'
import { listNames } from '../../util/text.ts'
import { coerceField } from '../coerce/record.ts'
import type { Fit } from '../catalogue.ts'
import type { SourceFinding } from '../problems.ts'
import type { MappedOutput, Source } from '../source-model.ts'

/**
 * Finds the outputs whose values cannot fit their columns, by fitting the usual values of their fields as a write does. Pure: what
 * constraints, `map` and `sql` make of a value shows in a dry run. A field that the service does not list is not checked.
 */
export const findMisfits = ({ mapping: { shapes }, outputs }: Source): SourceFinding[] =>
  outputs.flatMap((output) => {
    const { field, map, sql } = output.mapping
    const shape = shapeOfField(field, shapes)
    if (shape === null || map !== null || sql !== null) return []
    const reasons = shape.examples.map((value) => {
      const coercion = coerceField(output, value)
      return coercion.ok ? null : coercion.reason
    })
    const [reason = null] = reasons
    if (reason === null || reasons.includes(null)) return []
    // A service may send words that its documentation does not list.
    if (shape.form !== 'fixed' && /^no_(?:such_label|match)$/.test(reason)) return []
    return [
      {
        place: `outputs.${output.column}`,
        found: `\`${field}\`, ${shape.description}, into ${describeColumn(output)}`,
        expected: 'a field whose values the column can hold',
        todo: `Convert it with \`map\` or \`sql\` ($json::text is a list as JSON), correct \`matches\`, or name another field or column.`,
      },
    ]
  })

function describeColumn({ fit, path, type }: MappedOutput): string {
  const labels = listLabels(fit)
  if (path.length > 0) return 'a key of jsonb'
  return labels === null ? type.name : `${type.name} (${listNames(labels)})`
}

/** The labels of an enum, or of an array of one; null for other types. */
export function listLabels(fit: Fit): readonly string[] | null {
  if (fit.kind === 'array') return listLabels(fit.element)
  return fit.kind === 'enum' ? fit.labels : null
}
