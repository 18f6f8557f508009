import { randomUUID } from 'node:crypto';

/** JSON text with bigints as bare integers. */
export function writeJson(value: unknown): string {
  // Drawn anew for each text that needs it, so that no client's own text can be taken for a marked integer.
  let mark: string | null = null;
  const text = JSON.stringify(value, (_key, item: unknown) => {
    if (typeof item !== 'bigint') return item;
    if (item <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(item);
    mark ??= `${randomUUID()}:`;
    return mark + item.toString();
  });
  return mark === null ? text : text.replace(new RegExp(`"${mark}(\\d+)"`, 'g'), '$1');
}
