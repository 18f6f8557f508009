/** A node that knows lists of signatures and transactions, and pages them in its own way. */
import { encode } from '../../src/lib/base58.ts';
import { startUpstream, type TestUpstream } from './upstream.ts';

export interface NodeEntry {
  readonly signature: string;
  readonly slot: number;
  readonly err: unknown;
  readonly blockTime: number | null;
}

export interface WalletNode extends TestUpstream {
  /** Lists by address, newest first. */
  readonly lists: Map<string, readonly NodeEntry[]>;
  /** Results of `getTransaction` by signature; those that are missing are null. */
  readonly transactions: Map<string, unknown>;
  /** Signatures that were fetched, in order. */
  fetched(): readonly string[];
}

/** `pageSize`: the most that it gives at once, whatever it is asked for. It tells no block. */
export async function startWalletNode(pageSize = 1_000): Promise<WalletNode> {
  const upstream = await startUpstream({ slot: 500_000_000 });
  const lists = new Map<string, readonly NodeEntry[]>();
  const transactions = new Map<string, unknown>();
  upstream.on('getSignaturesForAddress', ({ params }) => {
    const [address, options] = params as [string, { limit?: number; before?: string }];
    const list = lists.get(address) ?? [];
    const from = options.before === undefined ? 0 : list.findIndex(({ signature }) => signature === options.before) + 1;
    return { result: JSON.stringify(list.slice(from, from + Math.min(options.limit ?? 1_000, pageSize))) };
  });
  upstream.on('getTransaction', ({ params }) => ({
    result: JSON.stringify(transactions.get((params as [string])[0]) ?? null),
  }));
  upstream.on('getTokenAccountsByOwner', { result: '{"context":{"slot":1},"value":[]}' });
  upstream.on('getMultipleAccounts', ({ params }) => ({
    result: JSON.stringify({ context: { slot: 1 }, value: (params as [string[]])[0].map(() => null) }),
  }));
  return {
    ...upstream,
    lists,
    transactions,
    fetched: () => upstream.callsOf('getTransaction').map(({ params }) => (params as [string])[0]),
  };
}

const SYSTEM = '11111111111111111111111111111111';
const FEE = 5_000;

export interface Payment {
  readonly entry: NodeEntry;
  readonly from: string;
  readonly to: string;
  readonly lamports: number;
  /** Lamports before it. */
  readonly before?: { readonly from: number; readonly to: number };
}

/** A system transfer as `getTransaction` shows it; a failed entry moves nothing but the fee. */
export function paymentResult({ entry, from, to, lamports, before }: Payment): unknown {
  const data = Buffer.alloc(12);
  data.writeUInt32LE(2, 0);
  data.writeBigUInt64LE(BigInt(lamports), 4);
  const pre = before ?? { from: 1_000_000_000, to: 1_000_000 };
  const moved = entry.err === null ? lamports : 0;
  return {
    slot: entry.slot,
    blockTime: entry.blockTime,
    version: 'legacy',
    transaction: {
      signatures: [entry.signature],
      message: {
        accountKeys: [from, to, SYSTEM],
        header: { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 1 },
        recentBlockhash: SYSTEM,
        instructions: [{ programIdIndex: 2, accounts: [0, 1], data: encode(data) }],
      },
    },
    meta: {
      err: entry.err,
      fee: FEE,
      preBalances: [pre.from, pre.to, 1],
      postBalances: [pre.from - moved - FEE, pre.to + moved, 1],
      preTokenBalances: [],
      postTokenBalances: [],
      innerInstructions: [],
      logMessages: [],
      loadedAddresses: { writable: [], readonly: [] },
    },
  };
}
