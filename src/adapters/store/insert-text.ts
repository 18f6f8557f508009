/** Text of a multi-row insert; `placeholder` is given the position of each value, counted from 1. */
export function insertText(
  table: string,
  columns: readonly string[],
  rowCount: number,
  ignoreConflicts: boolean,
  placeholder: (position: number) => string,
): string {
  let position = 0;
  const rows = Array.from({ length: rowCount }, () => {
    const values = columns.map(() => {
      position += 1;
      return placeholder(position);
    });
    return `(${values.join(',')})`;
  });
  const names = columns.map(quote).join(',');
  return `insert into ${quote(table)} (${names}) values ${rows.join(',')}${ignoreConflicts ? ' on conflict do nothing' : ''}`;
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
