import { accountFormatOf, accountJson } from '../encode/account.ts';
import type { ParseContext } from '../encode/parsed-account.ts';
import { exact } from '../ledger/record.ts';
import type { AccountView } from '../ledger/views.ts';
import { filtersOf } from './filters.ts';
import { accountsFor, inContext, type LocalNode, type Methods } from './node.ts';
import { asKey, configAt, integerAt, keyAt, listAt } from './params.ts';
import { invalidParams } from './rpc-error.ts';

const MAX_ACCOUNT_BYTES = 10 * 1024 * 1024;

export const accountMethods: Methods = {
  getBalance(node, params) {
    const view = accountsFor(node, configAt(params, 1));
    return inContext(view.slot, exact(view.get(keyAt(params, 0))?.lamports ?? 0n));
  },
  getAccountInfo(node, params) {
    const config = configAt(params, 1);
    const view = accountsFor(node, config);
    const account = view.get(keyAt(params, 0));
    return inContext(view.slot, accountJson(account, accountFormatOf(config), parseContext(node, view)));
  },
  getMultipleAccounts(node, params) {
    const config = configAt(params, 1);
    const view = accountsFor(node, config);
    const format = accountFormatOf(config);
    const keys = listAt(params, 0, 100).map(asKey);
    return inContext(
      view.slot,
      keys.map((key) => accountJson(view.get(key), format, parseContext(node, view))),
    );
  },
  getProgramAccounts(node, params) {
    const config = configAt(params, 1);
    const view = accountsFor(node, config);
    const format = accountFormatOf(config);
    const matches = filtersOf(config['filters']);
    const found = [...view.ofProgram(keyAt(params, 0))]
      .filter(([, account]) => matches(account))
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([pubkey, account]) => ({ pubkey, account: accountJson(account, format, parseContext(node, view)) }));
    return config['withContext'] === true ? inContext(view.slot, found) : found;
  },
  getMinimumBalanceForRentExemption(node, params) {
    const size = integerAt(params, 0);
    if (size > MAX_ACCOUNT_BYTES) throw invalidParams('Invalid params: an account has at most 10 MiB');
    return exact(node.bank.vm.rentExemptLamports(size));
  },
};

export function parseContext(node: LocalNode, view: AccountView): ParseContext {
  return { account: (key) => view.get(key), unixSeconds: node.bank.pending.time };
}
