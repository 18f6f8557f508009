/** Lines of a text table: columns as wide as their widest cell, numbers right-aligned. */
export function tableLines(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): readonly string[] {
  const texts = rows.map((row) =>
    row.map((cell) => (typeof cell === 'number' ? cell.toLocaleString('en-US') : plain(cell))),
  );
  const widths = head.map((title, i) => Math.max(title.length, ...texts.map((row) => (row[i] ?? '').length)));
  const isNumber = (i: number) => rows.length > 0 && rows.every((row) => typeof row[i] === 'number');
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => (isNumber(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  return [line(head), ...texts.map(line)];
}

/** Removes control characters, which a terminal would interpret; users choose the names. */
function plain(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '?');
}

/** `2026-01-31 12:00` in UTC. */
export function timeText(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 16).replace('T', ' ');
}
