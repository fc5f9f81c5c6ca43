/** One record of a CSV file (RFC 4180). A text that a spreadsheet would evaluate as a formula gets a leading quote. */
export function formatCsvLine(fields: readonly (string | null)[]): string {
  return `${fields.map((field) => quoteField(field ?? '')).join(',')}\r\n`
}

function quoteField(field: string): string {
  const plain = /^[=+\-@\t\r]/.test(field) && !/^[+-]?[\d.]+$/.test(field) ? `'${field}` : field
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
