/** Transactions that a test makes of calls, with the balances that go with them. */
import { createHash } from 'node:crypto';
import { encode, encode32 } from '../../src/lib/base58.ts';
import type { HostedElement } from './rebuild-enhanced.ts';

export interface BuiltCall {
  readonly program: string;
  readonly accounts?: readonly string[];
  readonly data: Uint8Array;
  readonly inner?: readonly BuiltCall[];
}

export interface BuiltToken {
  readonly account: string;
  readonly owner: string;
  readonly mint: string;
  readonly change: bigint;
  readonly decimals: number;
}

const SYSTEM = '1'.repeat(32);
const TOKEN = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
const FEE = 5_000;

/** An address that stands for a name. */
export const addressFor = (name: string): string => encode32(createHash('sha256').update(name).digest());

const u64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
};

export const tokenTransfer = (from: string, to: string, authority: string, amount: bigint): BuiltCall => ({
  program: TOKEN,
  accounts: [from, to, authority],
  data: Buffer.concat([Buffer.from([3]), u64(amount)]),
});

export const tokenBurn = (from: string, mint: string, authority: string, amount: bigint): BuiltCall => ({
  program: TOKEN,
  accounts: [from, mint, authority],
  data: Buffer.concat([Buffer.from([8]), u64(amount)]),
});

export const tokenMint = (mint: string, to: string, authority: string, amount: bigint): BuiltCall => ({
  program: TOKEN,
  accounts: [mint, to, authority],
  data: Buffer.concat([Buffer.from([7]), u64(amount)]),
});

export const solTransfer = (from: string, to: string, lamports: bigint): BuiltCall => ({
  program: SYSTEM,
  accounts: [from, to],
  data: Buffer.concat([Buffer.from([2, 0, 0, 0]), u64(lamports)]),
});

/** What `rebuildBlock` makes a block of: its members that only an answer has are empty. */
export function builtElement(
  payer: string,
  calls: readonly BuiltCall[],
  options: { readonly tokens?: readonly BuiltToken[]; readonly lamports?: Readonly<Record<string, number>> } = {},
): HostedElement {
  const { tokens = [], lamports = {} } = options;
  const plain = ({ program, accounts = [], data }: BuiltCall) => ({ programId: program, accounts, data: encode(data) });
  const all = calls.flatMap((call) => [call, ...(call.inner ?? [])]);
  const named = [payer, ...tokens.map(({ account }) => account), ...all.flatMap(({ accounts = [] }) => accounts)];
  const changes = { ...lamports, [payer]: (lamports[payer] ?? 0) - FEE };
  return {
    accountData: [...new Set([...named, ...all.map(({ program }) => program)])].map((account) => ({
      account,
      nativeBalanceChange: changes[account] ?? 0,
      tokenBalanceChanges: tokens
        .filter((one) => one.account === account)
        .map(({ owner, mint, change, decimals }) => ({
          userAccount: owner,
          tokenAccount: account,
          mint,
          rawTokenAmount: { tokenAmount: String(change), decimals },
        })),
    })),
    description: '',
    events: {},
    fee: FEE,
    feePayer: payer,
    slot: 300_000_000,
    timestamp: 1_700_000_000,
    instructions: calls.map((call) => ({ ...plain(call), innerInstructions: (call.inner ?? []).map(plain) })),
    nativeTransfers: [],
    tokenTransfers: [],
    transactionError: null,
    source: '',
    type: '',
    signature: encode(
      createHash('sha512')
        .update(JSON.stringify(calls.map(plain)))
        .digest(),
    ),
  };
}
