import type { ChainReader } from '../../../../src/kernel/plugin.ts';
import type { AccountReader } from './account-reader.ts';

/** Names are kept on mainnet; the programs of the test clusters hold copies that mean nothing. */
const TEST_CLUSTERS: ReadonlySet<string> = new Set([
  'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG',
  '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY',
]);

/** Whether names mean something on this chain. Rejects when it cannot be told. */
export async function hasNames(chain: ChainReader, reader: AccountReader): Promise<boolean> {
  const { genesisHash } = chain.status();
  return !TEST_CLUSTERS.has(genesisHash ?? (await reader.genesisHash()));
}
