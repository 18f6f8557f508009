import { readFile, stat } from 'node:fs/promises';
import { isPlainObject } from '../../../src/lib/plain-object.ts';
import { type Found, isPrice, type PriceSource } from './source.ts';

/** Prices of a JSON file: `{mint: dollars}` or `{mint: {usd}}`. It is read again when its time or size changes. */
export function createStaticSource(path: string): PriceSource {
  let read: { readonly stamp: string; readonly prices: Found } | null = null;

  async function load(): Promise<Found> {
    const { mtimeMs, size } = await stat(path);
    const stamp = `${mtimeMs}:${size}`;
    if (read?.stamp !== stamp) read = { stamp, prices: pricesOf(JSON.parse(await readFile(path, 'utf8'))) };
    return read.prices;
  }

  return {
    name: 'static',
    async prices(mints) {
      const all = await load();
      const found = new Map<string, number>();
      for (const mint of mints) {
        const usd = all.get(mint);
        if (usd !== undefined) found.set(mint, usd);
      }
      return found;
    },
  };
}

function pricesOf(file: unknown): Found {
  if (!isPlainObject(file)) throw new TypeError('the file of prices holds no object');
  const prices = new Map<string, number>();
  for (const [mint, value] of Object.entries(file)) {
    const usd = isPlainObject(value) ? value['usd'] : value;
    if (isPrice(usd)) prices.set(mint, usd);
  }
  return prices;
}
