/** One record of a CSV file (RFC 4180). A text that a spreadsheet would take for a formula is made plain by a quote. */
export function csvLine(fields: readonly (string | null)[]): string {
  return `${fields.map((field) => quoted(field ?? '')).join(',')}\r\n`
}

function quoted(field: string): string {
  const plain = /^[=+\-@\t\r]/.test(field) && !/^[+-]?[\d.]+$/.test(field) ? `'${field}` : field
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
