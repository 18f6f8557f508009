import type { ChainReader } from '../../../src/kernel/plugin.ts';
import { refusedAs503 } from '../input/chain-call.ts';
import { noChain } from './refusals.ts';
import type { Tracker } from './tracker.ts';
import type { WalletView } from './view.ts';

/** Opens the history of a wallet for one request. Errors: 503 where nothing can be known. */
export type OpenWallet = (key: Uint8Array, address: string, signal: AbortSignal) => Promise<WalletView>;

/** Without a chain every call is refused; what the upstream refuses is a 503. */
export function createOpenWallet(chain: ChainReader | null, tracker: Tracker | null): OpenWallet {
  if (chain === null || tracker === null) return () => Promise.reject(noChain());
  return async (key, address, signal) => {
    const view = await refusedAs503('the history of the wallet', tracker.open(key, address, signal));
    const safe =
      <A extends readonly unknown[], T>(work: (...args: A) => Promise<T>) =>
      (...args: A): Promise<T> =>
        refusedAs503('the history of the wallet', work(...args));
    return {
      ...view,
      page: safe(view.page),
      load: safe(view.load),
      locate: safe(view.locate),
      whole: safe(view.whole),
      accountRows: safe(view.accountRows),
      accountsOf: safe(view.accountsOf),
      slotAt: safe(view.slotAt),
      timeNear: safe(view.timeNear),
    };
  };
}
