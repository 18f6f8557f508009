import type { ChainReader } from '../../../src/plugin/plugin.ts';
import type { CallContext } from '../../../src/plugin/request.ts';
import { refusedAs503 } from '../input.ts';
import type { Tracker } from './tracker.ts';
import { noChain, type WalletView } from './view.ts';

/** Opens the history of a wallet for one request. Errors: 503 where nothing can be known; 400 and 429 for what is not indexed. */
export type OpenWallet = (
  key: Uint8Array,
  address: string,
  call: Pick<CallContext, 'caller' | 'signal'>,
) => Promise<WalletView>;

/** Without a chain every call is refused; what the upstream refuses is a 503. */
export function createOpenWallet(chain: ChainReader | null, tracker: Tracker | null): OpenWallet {
  if (chain === null || tracker === null) return () => Promise.reject(noChain());
  return async (key, address, { caller, signal }) => {
    const view = await refusedAs503('the history of the wallet', tracker.open(key, address, caller, signal));
    const safe =
      <A extends readonly unknown[], T>(work: (...args: A) => Promise<T>) =>
      (...args: A): Promise<T> =>
        refusedAs503('the history of the wallet', work(...args));
    return {
      ...view,
      page: safe(view.page),
      load: safe(view.load),
      locate: safe(view.locate),
      reach: safe(view.reach),
      whole: safe(view.whole),
      accountRows: safe(view.accountRows),
      accountsOf: safe(view.accountsOf),
      slotAt: safe(view.slotAt),
      timeNear: safe(view.timeNear),
    };
  };
}
