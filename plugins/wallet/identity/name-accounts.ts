import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainReader, Clock } from '../../../src/plugin/plugin.ts';
import type { NameAccount } from '../../../src/solana/names.ts';
import { createChainCall } from '../input.ts';

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

export interface SolRegistry {
  /** Whether .sol names are no longer those of the old registry. Rejects when the chain does not tell. */
  isCutOff(): Promise<boolean>;
}

const REMEMBERED_MS = 5_000;

/** `.sol` names moved to another program at a final slot: from there on an old owner must not be taken for the present one. */
export function createSolRegistry(reader: AccountReader, clock: Clock, cutOffSlot: number | null): SolRegistry {
  let isPast = false;
  let asked: { readonly answer: Promise<boolean>; readonly untilMs: number } | null = null;

  async function ask(slot: number): Promise<boolean> {
    // Final slots do not go back, so the answer stays once it is yes.
    isPast ||= (await reader.finalizedSlot()) >= slot;
    return isPast;
  }

  return {
    async isCutOff() {
      if (cutOffSlot === null || isPast) return isPast;
      const now = clock.monotonic();
      if (asked !== null && now < asked.untilMs) return asked.answer;
      const answer = ask(cutOffSlot);
      const mine = { answer, untilMs: now + REMEMBERED_MS };
      asked = mine;
      answer.catch(() => {
        if (asked === mine) asked = null;
      });
      return answer;
    },
  };
}
