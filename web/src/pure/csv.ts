/** What is shown, to be taken elsewhere: tables as CSV, questions to the daemon as commands. Pure. */

export type CsvValue = string | number | boolean | null | undefined;

/** RFC 4180. Unknown is empty. Text that a spreadsheet would take for a formula gets an apostrophe in front. */
export function csv(rows: CsvValue[][]): string {
  return rows.map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

function field(value: CsvValue): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** `base`: where the page was loaded from. */
export function curl(base: string, path: string): string {
  const url = new URL(`api/v1/${path}`, base).href.replace(/#.*$/, "").replaceAll("'", "%27");
  return `curl -sS --compressed '${url}'`;
}
