import type { ChainReader } from '../../../../src/kernel/plugin.ts';
import { encode32 } from '../../../../src/lib/base58.ts';
import type { NameAccount } from '../../../../src/solana/names/accounts.ts';
import { createChainCall } from '../../input/chain-call.ts';

/** Reads of the chain for names. What a node refuses is a 503: nothing is known then of any name. */
export interface AccountReader {
  /** Accounts of 32-byte keys, in their order; all of one group of at most 100 are of the same moment. */
  accounts(keys: readonly Uint8Array[]): Promise<readonly (NameAccount | null)[]>;
  /** The newest final slot. */
  finalizedSlot(): Promise<number>;
  genesisHash(): Promise<string>;
  call<T>(method: string, params: readonly unknown[]): Promise<T>;
}

interface RpcAccount {
  readonly owner: string;
  readonly data: readonly [base64: string, encoding: string];
}

const MOST_KEYS = 100;

export function createAccountReader(chain: ChainReader): AccountReader {
  const { call } = createChainCall(chain);

  async function group(keys: readonly Uint8Array[]): Promise<readonly (NameAccount | null)[]> {
    const texts = keys.map((key) => encode32(key));
    const options = { encoding: 'base64', commitment: 'confirmed' };
    const { value } = await call<{ value: readonly (RpcAccount | null)[] }>('getMultipleAccounts', [texts, options]);
    return keys.map((_, at) => {
      const account = value[at] ?? null;
      return account === null ? null : { owner: account.owner, data: Buffer.from(account.data[0], 'base64') };
    });
  }

  return {
    async accounts(keys) {
      const groups: (readonly Uint8Array[])[] = [];
      for (let at = 0; at < keys.length; at += MOST_KEYS) groups.push(keys.slice(at, at + MOST_KEYS));
      return (await Promise.all(groups.map(group))).flat();
    },
    finalizedSlot: () => call<number>('getSlot', [{ commitment: 'finalized' }]),
    genesisHash: () => call<string>('getGenesisHash', []),
    call,
  };
}
