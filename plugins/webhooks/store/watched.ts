import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import { chainOf, WEBHOOK_TYPES } from '../model/webhook.ts';
import type { Db } from './tables.ts';

/** Base58 addresses that active webhooks of a chain watch, each once, at most `limit`. */
export async function watchedAddresses(db: Db, chain: ChainId, limit: number): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('webhook_addresses')
    .innerJoin('webhooks', 'webhooks.number', 'webhook_addresses.number')
    .select('webhook_addresses.address')
    .distinct()
    .where('webhooks.active', '=', 1)
    .where(
      'webhooks.type',
      'in',
      WEBHOOK_TYPES.filter((type) => chainOf(type) === chain),
    )
    .limit(limit)
    .execute();
  return rows.map(({ address }) => encode32(address));
}
