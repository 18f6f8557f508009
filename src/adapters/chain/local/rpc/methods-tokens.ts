import { encode32 } from '../../../../lib/base58.ts';
import { accountFormatOf, accountJson } from '../encode/account.ts';
import { view as bytesView, isMint, isTokenProgram, tokenStateOf } from '../ledger/token-state.ts';
import { uiAmountOf } from '../ledger/ui-amount.ts';
import type { AccountView } from '../ledger/views.ts';
import type { VmAccount } from '../vm/vm.ts';
import { parseContext } from './methods-accounts.ts';
import { accountsFor, inContext, type LocalNode, type Methods } from './node.ts';
import { asKey, configAt, keyAt } from './params.ts';
import { invalidParams } from './rpc-error.ts';

const LARGEST = 20;

export const tokenMethods: Methods = {
  getTokenAccountsByOwner: (node, params) => listTokenAccounts(node, params, (data) => encode32(data, 32)),
  getTokenAccountsByDelegate: (node, params) =>
    listTokenAccounts(node, params, (data) => (bytesView(data).getUint32(72, true) === 1 ? encode32(data, 76) : null)),
  getTokenAccountBalance(node, params) {
    const view = accountsFor(node, configAt(params, 1));
    const account = view.get(keyAt(params, 0));
    if (account === null) throw invalidParams('Invalid param: could not find account');
    const state = tokenStateOf(account);
    if (state === null) throw invalidParams('Invalid param: not a Token account');
    return inContext(view.slot, uiAmountOf(state.amount, view.get(state.mint), node.bank.pending.time));
  },
  getTokenSupply(node, params) {
    const view = accountsFor(node, configAt(params, 1));
    const mint = mintAt(view, keyAt(params, 0));
    return inContext(view.slot, uiAmountOf(bytesView(mint.data).getBigUint64(36, true), mint, node.bank.pending.time));
  },
  getTokenLargestAccounts(node, params) {
    const view = accountsFor(node, configAt(params, 1));
    const key = keyAt(params, 0);
    const mint = mintAt(view, key);
    const holders = [...view.ofProgram(mint.owner)].flatMap(([address, account]) => {
      const state = tokenStateOf(account);
      return state?.mint === key ? [{ address, amount: state.amount }] : [];
    });
    holders.sort((left, right) =>
      left.amount === right.amount ? (left.address < right.address ? -1 : 1) : left.amount < right.amount ? 1 : -1,
    );
    return inContext(
      view.slot,
      holders
        .slice(0, LARGEST)
        .map(({ address, amount }) => ({ address, ...uiAmountOf(amount, mint, node.bank.pending.time) })),
    );
  },
};

function mintAt(view: AccountView, key: string): VmAccount {
  const mint = view.get(key);
  if (mint === null) throw invalidParams('Invalid param: could not find mint');
  if (!isMint(mint)) throw invalidParams('Invalid param: not a Token mint');
  return mint;
}

function listTokenAccounts(
  node: LocalNode,
  params: readonly unknown[],
  keyOf: (data: Uint8Array) => string | null,
): unknown {
  const config = configAt(params, 2);
  const view = accountsFor(node, config);
  const wanted = keyAt(params, 0);
  const format = accountFormatOf(config);
  const { program, mint } = tokenFilter(view, configAt(params, 1));
  const found = [...view.ofProgram(program)]
    .filter(([, account]) => {
      const state = tokenStateOf(account);
      return state !== null && keyOf(account.data) === wanted && (mint === null || state.mint === mint);
    })
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([pubkey, account]) => ({ pubkey, account: accountJson(account, format, parseContext(node, view)) }));
  return inContext(view.slot, found);
}

function tokenFilter(view: AccountView, filter: Readonly<Record<string, unknown>>) {
  if (filter['mint'] !== undefined) {
    const mint = asKey(filter['mint']);
    return { program: mintAt(view, mint).owner, mint };
  }
  const program = asKey(filter['programId']);
  if (!isTokenProgram(program)) throw invalidParams('Invalid param: unrecognized Token program id');
  return { program, mint: null };
}
