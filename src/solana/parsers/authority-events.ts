import { encode32 } from '../../lib/base58.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../address/known-programs.ts';
import type { TransactionView, ViewStep } from './view.ts';

const SET_AUTHORITY = 6;

/** `setAuthority` of `events`, where that is switched on and something of the kind happened. */
export function authorityEvents(view: TransactionView): Readonly<Record<string, unknown>> {
  if (!view.options.setAuthorityEvents) return {};
  const changes = view.steps.filter(
    ({ programId, data, accounts }) =>
      (programId === TOKEN_PROGRAM || programId === TOKEN_2022_PROGRAM) &&
      data[0] === SET_AUTHORITY &&
      data.length >= 3 &&
      accounts.length >= 2,
  );
  return changes.length === 0 ? {} : { setAuthority: changes.map((step) => entry(view, step)) };
}

function entry(view: TransactionView, { accounts, data, outer, inner }: ViewStep) {
  return {
    account: view.account(accounts[0]),
    from: view.account(accounts[1]),
    innerInstructionIndex: inner < 0 ? null : inner,
    instructionIndex: outer,
    to: data[2] === 1 && data.length >= 35 ? encode32(data, 3) : null,
  };
}
