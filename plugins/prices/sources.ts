import { readFile, stat } from 'node:fs/promises';
import { CodedError } from '../../src/lib/coded-error.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import type { OutboundClient } from '../../src/ports/outbound.ts';
import { PRICES_ERRORS } from './errors.ts';

/** Dollars by mint; those that are not in the map are unknown to the source. */
export type Found = ReadonlyMap<string, number>;

/** Where prices come from. */
export interface PriceSource {
  readonly name: 'static' | 'http' | 'onchain';
  /** Rejects when the source does not answer: then nothing is known, not even that there is no price. */
  prices(mints: readonly string[], timeoutMs: number): Promise<Found>;
}

/** Whether a value is a price at all. */
const isPrice = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0;

interface HttpSourceParts {
  readonly client: OutboundClient;
  readonly baseUrl: string;
  readonly apiKey: string | null;
}

/** The most that a server takes in one call. */
const MINTS_PER_CALL = 50;
const MAX_BYTES = 1_048_576;

/** Asks a server that answers like price v3 of Jupiter: an object by mint, in which mints without a reliable price are missing. */
export function createHttpSource({ client, baseUrl, apiKey }: HttpSourceParts): PriceSource {
  const base = baseUrl.replace(/\/+$/, '');
  const headers: Record<string, string> = { accept: 'application/json' };
  if (apiKey !== null) headers['x-api-key'] = apiKey;

  async function ask(mints: readonly string[], timeoutMs: number): Promise<Found> {
    const url = `${base}/price/v3?ids=${mints.join(',')}`;
    const response = await client.request({
      ...{ method: 'GET', url, headers, timeoutMs },
      ...{ keepBytes: MAX_BYTES, maxBytes: MAX_BYTES },
    });
    if (response.status !== 200) throw badAnswer(`status ${response.status}`);
    const answer = parse(response.body.toString('utf8'));
    const found = new Map<string, number>();
    for (const mint of mints) {
      const entry = answer[mint];
      const usd = isPlainObject(entry) ? entry['usdPrice'] : undefined;
      if (isPrice(usd)) found.set(mint, usd);
    }
    return found;
  }

  return {
    name: 'http',
    async prices(mints, timeoutMs) {
      const calls: Promise<Found>[] = [];
      for (let from = 0; from < mints.length; from += MINTS_PER_CALL)
        calls.push(ask(mints.slice(from, from + MINTS_PER_CALL), timeoutMs));
      const answers = await Promise.all(calls);
      return new Map(answers.flatMap((found) => [...found]));
    },
  };
}

function parse(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badAnswer('no JSON');
  }
  if (!isPlainObject(value)) throw badAnswer('no object');
  return value;
}

const badAnswer = (reason: string) =>
  new CodedError('PRICES_BAD_ANSWER', PRICES_ERRORS.PRICES_BAD_ANSWER, { facts: { reason }, retryable: true });

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
