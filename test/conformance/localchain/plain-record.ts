import type { Quirk } from '../../helpers/backends.ts';
import type { ScriptRun, Sent } from './same-script.ts';

/** `getTransaction` with encoding `json`, as far as it is compared. */
interface Answer {
  readonly version?: unknown;
  readonly transaction: {
    readonly message: {
      readonly accountKeys: readonly string[];
      readonly header: unknown;
      readonly instructions: readonly Instruction[];
    };
  };
  readonly meta: Meta;
}

interface Instruction {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  readonly data: string;
  readonly stackHeight?: number | null;
}

interface Meta {
  readonly err: unknown;
  readonly status: unknown;
  readonly fee: number;
  readonly preBalances: readonly number[];
  readonly postBalances: readonly number[];
  readonly preTokenBalances: readonly TokenBalance[];
  readonly postTokenBalances: readonly TokenBalance[];
  readonly innerInstructions: readonly { readonly index: number; readonly instructions: readonly Instruction[] }[];
  readonly logMessages: readonly string[];
  readonly loadedAddresses: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
  readonly computeUnitsConsumed: number;
  readonly returnData?: { readonly programId: string; readonly data: readonly [string, string] };
}

interface TokenBalance {
  readonly accountIndex: number;
  readonly mint: string;
  readonly owner: string;
  readonly programId: string;
  readonly uiTokenAmount: { readonly amount: string; readonly decimals: number; readonly uiAmountString: string };
}

const trimmed = (amount: string) => (amount.includes('.') ? amount.replace(/\.?0+$/, '') : amount);
const sum = (list: readonly number[]) => list.reduce((all, one) => all + one, 0);

/** A call to a node, answered or thrown. */
export async function ask(url: string, method: string, params: readonly unknown[]): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const reply = (await response.json()) as { result?: unknown; error?: unknown };
  return reply.error === undefined ? reply.result : { error: reply.error };
}

/**
 * A landed transaction with everything that is the same on two chains: indexes resolved, slot-bound addresses named, the quirks
 * of its node undone. A slot-bound transaction carries the slot in its data, and its work depends on it.
 */
export async function plainRecord(
  url: string,
  { names }: ScriptRun,
  { signature, isSlotBound }: Sent,
  quirks: ReadonlySet<Quirk>,
) {
  const options = { encoding: 'json', commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
  const { transaction, meta, version } = (await ask(url, 'getTransaction', [signature, options])) as Answer;
  const { message } = transaction;
  const { writable, readonly } = meta.loadedAddresses;
  const named = (text: string) => [...names].reduce((all, [address, name]) => all.replaceAll(address, name), text);
  const keys = [...message.accountKeys, ...writable, ...readonly].map(named);
  const plainInstruction = ({ programIdIndex, accounts, data, stackHeight }: Instruction, isInner: boolean) => ({
    program: keys[programIdIndex],
    accounts: accounts.map((index) => keys[index]),
    data,
    ...(isInner ? { stackHeight } : {}),
  });
  const balances = (list: readonly number[]) =>
    Object.fromEntries(list.map((lamports, index) => [keys[index], lamports]));
  const isGone = (index: number) => quirks.has('closedTokens') && meta.postBalances[index] === 0;
  const tokens = (list: readonly TokenBalance[]) =>
    Object.fromEntries(
      list.map(({ accountIndex, mint, owner, programId, uiTokenAmount: { amount, decimals, uiAmountString } }) => [
        keys[accountIndex],
        {
          mint,
          owner,
          programId,
          amount,
          decimals,
          uiAmountString: quirks.has('paddedAmount') ? trimmed(uiAmountString) : uiAmountString,
        },
      ]),
    );
  const returned = meta.returnData;
  return {
    version,
    header: message.header,
    keys: keys.toSorted(),
    loaded: { writable, readonly },
    instructions: isSlotBound ? null : message.instructions.map((one) => plainInstruction(one, false)),
    err: meta.err,
    status: meta.status,
    fee: quirks.has('baseFeeOnly') ? sum(meta.preBalances) - sum(meta.postBalances) : meta.fee,
    before: balances(meta.preBalances),
    after: balances(meta.postBalances),
    tokensBefore: tokens(meta.preTokenBalances),
    tokensAfter: tokens(meta.postTokenBalances.filter(({ accountIndex }) => !isGone(accountIndex))),
    inner: meta.innerInstructions.map(({ index, instructions }) => ({
      index,
      instructions: instructions.map((one) => plainInstruction(one, true)),
    })),
    logs: meta.logMessages.map((line) => named(isSlotBound ? line.replace(/consumed .*/, 'consumed') : line)),
    computeUnits: isSlotBound ? null : meta.computeUnitsConsumed,
    returned: quirks.has('emptyReturnData') && returned?.data[0] === '' ? undefined : returned,
  };
}
