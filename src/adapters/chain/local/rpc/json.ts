/** Marks integers that a number cannot hold; random enough in length and form that no client text meets it by accident. */
const MARK = '\u0001bigint:';
const MARKED = /"\\u0001bigint:(\d+)"/g;

/** JSON text with bigints as bare integers. */
export function writeJson(value: unknown): string {
  let marked = false;
  const text = JSON.stringify(value, (_key, item: unknown) => {
    if (typeof item !== 'bigint') return item;
    if (item <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(item);
    marked = true;
    return MARK + item.toString();
  });
  return marked ? text.replace(MARKED, '$1') : text;
}
