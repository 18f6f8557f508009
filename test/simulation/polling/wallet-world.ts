/** A wallet with two token accounts, the transactions that touch them, and skewed nodes that tell of them. */

import { decode, decode32, encode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { ChainCallOptions } from '../../../src/ports/chain.ts';
import { entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import { FIRST_SLOT, signaturesText, type World, type WorldBlock } from '../follower/world.ts';

const key = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
export const WALLET: Uint8Array = key(20);
/** Its token accounts, of which the first may be the wallet itself, as the vaults of some pools are. */
export type Accounts = readonly [Uint8Array, Uint8Array];
export const accountsOf = (isSelfOwned: boolean): Accounts => [isSelfOwned ? WALLET : key(21), key(22)];
const [STRANGER, SOURCE] = [key(1), key(30)] as const;
export const MINT: Uint8Array = key(40);
const SYSTEM = new Uint8Array(32);
const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
const TOKEN = decode32(TOKEN_PROGRAM)!;

/** What a transaction does, by its signature: nothing to the wallet, SOL to it, tokens into an account of it, or both. */
interface Deed {
  readonly isNamed: boolean;
  /** Number of the account. */
  readonly account: number | null;
  /** Rows of transfers. */
  readonly transfers: number;
}

const DEEDS: readonly Deed[] = [
  { isNamed: false, account: null, transfers: 0 },
  { isNamed: true, account: null, transfers: 1 },
  { isNamed: false, account: 0, transfers: 1 },
  { isNamed: false, account: 1, transfers: 1 },
  { isNamed: true, account: 1, transfers: 2 },
];

/** What the wallet has after it: lamports, and raw units in the account. */
export const lamportsAfter = (signature: string): number => 1_000 + decode(signature)![2]!;
export const tokensAfter = (signature: string): number => 3 + decode(signature)![3]!;

export function deedOf(signature: Uint8Array | string): Deed {
  const bytes = typeof signature === 'string' ? decode(signature)! : signature;
  return DEEDS[bytes[1]! % DEEDS.length]!;
}

const u64 = (value: number): Uint8Array => {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
};

/** A transaction with real instructions and balances, for `createWorld`. */
export function writeDeed(accounts: Accounts, signature: Uint8Array, text: string): object {
  const { isNamed, account } = deedOf(signature);
  const own = account === null ? [] : [accounts[account]!, SOURCE];
  const named = isNamed && !own.includes(WALLET) ? [WALLET] : [];
  const keys = [STRANGER, ...named, ...own, SYSTEM, TOKEN];
  const at = (wanted: Uint8Array) => keys.indexOf(wanted);
  const balance = (accountIndex: number, owner: Uint8Array, amount: number) => ({
    accountIndex,
    mint: encode32(MINT),
    owner: encode32(owner),
    programId: TOKEN_PROGRAM,
    uiTokenAmount: { amount: String(amount), decimals: 0, uiAmount: amount, uiAmountString: String(amount) },
  });
  const balances = (moved: number) =>
    account === null
      ? []
      : [
          balance(at(accounts[account]!), WALLET, tokensAfter(text) - 3 + moved),
          balance(at(SOURCE), STRANGER, 1_000 - moved),
        ];
  const pay = {
    program: at(SYSTEM),
    accounts: Uint8Array.of(0, at(WALLET)),
    data: Uint8Array.of(2, 0, 0, 0, ...u64(7)),
  };
  const move = {
    program: at(TOKEN),
    accounts: account === null ? new Uint8Array() : Uint8Array.of(at(SOURCE), at(accounts[account]!), 0),
    data: Uint8Array.of(3, ...u64(3)),
  };
  return entryOf({
    message: sampleMessage({
      header: [1, 0, 2],
      keys,
      instructions: [...(isNamed ? [pay] : []), ...(account === null ? [] : [move])],
    }),
    signatures: [signature],
    meta: {
      preTokenBalances: balances(0),
      postTokenBalances: balances(3),
      postBalances: keys.map((one) => (one === WALLET ? lamportsAfter(text) : 1)),
    },
  });
}

/** How one node sees the chain. */
export interface SkewedNode {
  /** Blocks that it is behind. */
  lag: number;
  /** Entries that it gives at once. */
  readonly pageLimit: number;
  /** How it orders the transactions of a slot. */
  readonly order: 'block' | 'reversed' | 'signature';
  isDown: boolean;
}

interface Options {
  readonly commitment?: string;
  readonly limit?: number;
  readonly before?: string;
  readonly minContextSlot?: number;
}

/** A chain with a wallet in it. */
export interface SkewedChain {
  readonly world: World;
  readonly accounts: Accounts;
}

type Answer = { readonly result: unknown } | { readonly error: { readonly code: number; readonly message: string } };

const fail = (code: number, message: string): Answer => ({ error: { code, message } });

const ordered = (signatures: readonly string[], order: SkewedNode['order']): readonly string[] =>
  order === 'block' ? signatures : order === 'reversed' ? signatures.toReversed() : signatures.toSorted();

function answerOf(
  { world, accounts }: SkewedChain,
  node: SkewedNode,
  method: string,
  params: readonly unknown[],
): Answer {
  const options = (params[1] ?? {}) as Options;
  const commitmentOf = ({ commitment }: Options) => commitment ?? 'finalized';
  const view = (of: Options): readonly WorldBlock[] => {
    const seen = world.chain.slice(0, Math.max(1, world.chain.length - node.lag));
    return commitmentOf(of) === 'confirmed' ? seen : seen.filter(({ slot }) => slot <= world.finalizedSlot);
  };
  const hasReached = (of: Options) => (view(of).at(-1)?.slot ?? 0) >= (of.minContextSlot ?? 0);
  switch (method) {
    case 'getSlot':
      return { result: view(params[0] as Options).at(-1)?.slot ?? 0 };
    case 'getFirstAvailableBlock':
      return { result: FIRST_SLOT };
    case 'getBlockTime':
      return { result: 1_700_000_000 };
    case 'getBlock': {
      const found = view(options).find(({ slot }) => slot === params[0]);
      if (found === undefined) return fail(-32004, 'Block not available');
      return { result: { ...JSON.parse(signaturesText(found)), blockHeight: found.slot === FIRST_SLOT ? 0 : 99 } };
    }
    case 'getTransaction': {
      const block = view(options).find(({ signatures }) => signatures.includes(params[0] as string));
      if (block === undefined) return { result: null };
      const entry = JSON.parse(block.transactionsText)[block.signatures.indexOf(params[0] as string)];
      return { result: { slot: block.slot, blockTime: block.blockTime, ...entry } };
    }
    case 'getTokenAccountsByOwner': {
      const config = params[2] as Options;
      if (!hasReached(config)) return fail(-32016, 'Minimum context slot has not been reached');
      const isToken = (params[1] as { programId: string }).programId === TOKEN_PROGRAM;
      const data = [Buffer.from(MINT).toString('base64'), 'base64'];
      const value = isToken ? accounts.map((one) => ({ pubkey: encode32(one), account: { data } })) : [];
      return { result: { context: { slot: 1 }, value } };
    }
    case 'getSignaturesForAddress': {
      if (!hasReached(options)) return fail(-32016, 'Minimum context slot has not been reached');
      const address = params[0] as string;
      const list = view(options)
        .toReversed()
        .flatMap(({ slot, signatures }) =>
          ordered(signatures, node.order)
            .filter((signature) => names(accounts, signature, address))
            .toReversed()
            .map((signature) => ({ signature, slot, err: null })),
        );
      // Since Agave 4.0; up to 3 the list was empty. What a fork took is unknown as well.
      const { before } = options;
      if (before !== undefined && !view(options).some(({ signatures }) => signatures.includes(before)))
        return fail(-32020, `Transaction ${before} not found`);
      const place = list.findIndex(({ signature }) => signature === before);
      const from = options.before === undefined ? 0 : place < 0 ? list.length : place + 1;
      return { result: list.slice(from, from + Math.min(options.limit ?? 1_000, node.pageLimit)) };
    }
    default:
      return fail(-32601, 'Method not found');
  }
}

function names(accounts: Accounts, signature: string, address: string): boolean {
  const { isNamed, account } = deedOf(signature);
  return (isNamed && address === encode32(WALLET)) || (account !== null && address === encode32(accounts[account]!));
}

/**
 * Calls as the reader of a chain makes them: any node may answer any of them, one that is behind is passed over, and an empty answer is
 * believed only when no node has more. `before` runs before each of them: the world goes on meanwhile.
 */
export function createCalls(
  chain: SkewedChain,
  nodes: readonly SkewedNode[],
  random: Sfc32,
  before: () => Promise<void>,
) {
  async function ask(method: string, params: readonly unknown[], { signal }: ChainCallOptions): Promise<unknown> {
    await before();
    signal?.throwIfAborted();
    const turn = random.below(nodes.length);
    const inTurn = [...nodes.slice(turn), ...nodes.slice(0, turn)].filter(({ isDown }) => !isDown);
    let last: Answer | null = null;
    for (const node of inTurn) {
      last = answerOf(chain, node, method, params);
      if ('error' in last ? last.error.code !== -32016 : last.result !== null) break;
    }
    if (last === null) throw new CodedError('CHAIN_UNREACHABLE', 'no node answers', { retryable: true });
    if ('result' in last) return last.result;
    throw new CodedError('CHAIN_RPC_ERROR', last.error.message, { facts: { rpcCode: last.error.code } });
  }
  return {
    call: async <T>(method: string, params: readonly unknown[], options: ChainCallOptions) =>
      (await ask(method, params, options)) as T,
    callText: async (method: string, params: readonly unknown[], options: ChainCallOptions) =>
      JSON.stringify(await ask(method, params, options)),
  };
}
