import { type Static, Type } from '@sinclair/typebox';
import { encode32 } from '../../../src/lib/base58.ts';
import {
  type ChainReader,
  codeOf,
  defineRoute,
  messageOf,
  type Random,
  type Route,
} from '../../../src/plugin/plugin.ts';
import { json, RequestError, type RouteRequest } from '../../../src/plugin/request.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { BlockHeader } from '../../../src/ports/block.ts';
import { keypairText, publicKeyOf } from '../../../src/solana/ed25519.ts';
import { address, orNull, signature } from '../../../src/solana/schemas.ts';
import { demandOperator, type Session } from '../sessions.ts';
import { API, audited, missing, PAGE_ROUTE, type PageContext, REFUSALS } from './common.ts';

export interface PlaygroundParts {
  /** Null without an upstream. */
  readonly chain: ChainReader | null;
  readonly random: Random;
}

export interface Playground {
  readonly routes: readonly Route[];
  /** Watches what is released of the local chain. The returned function ends it. */
  start(): () => void;
}

const MAX_LAMPORTS = 100_000 * 1_000_000_000;
const MAX_DEPTH = 10_000;
const SEED_BYTES = 32;
const CALL = { tenant: OWN_WORK } as const;

const REPLIES = { ...REFUSALS, 409: REFUSALS[400], 501: REFUSALS[400], 503: REFUSALS[400] } as const;

const payer = Type.Object({ address: address(), lamports: Type.Integer() });
const dropped = Type.Object({ slot: Type.Integer(), blockhash: Type.String(), signatures: Type.Array(Type.String()) });
const forkReport = Type.Object({
  commonAncestor: Type.Integer({ description: 'The newest block that both branches have' }),
  dropped: Type.Array(dropped),
  added: Type.Array(dropped),
  lost: Type.Array(Type.String(), { description: 'Transactions that the new branch does not have' }),
  moved: Type.Array(Type.Object({ signature: Type.String(), from: Type.Integer(), to: Type.Integer() })),
});
export type ForkAnswer = Static<typeof forkReport>;

const block = Type.Object({
  slot: Type.Integer(),
  blockhash: Type.String(),
  state: Type.Union([Type.Literal('confirmed'), Type.Literal('final'), Type.Literal('rolled back')]),
  signatures: orNull(Type.Array(Type.String(), { description: 'null: not known' })),
});
const view = Type.Object({
  canFork: Type.Boolean({ description: 'false: every block is final at once' }),
  maxForkDepth: Type.Integer({ description: 'Blocks that a fork can drop now' }),
  payer,
  blocks: Type.Array(block, { description: 'What the daemon released, newest first' }),
});
export type PlaygroundView = Static<typeof view>;

const paid = Type.Object({
  signature: signature(),
  address: address(),
  keypair: orNull(Type.String({ description: 'Of a fresh address: what a file of solana-keygen contains' })),
});
export type Paid = Static<typeof paid>;

/** What the local chain says of itself. */
interface LocalInfo {
  readonly maxForkDepth: number;
  readonly payer: Static<typeof payer>;
}

/**
 * Airdrops, transfers and forks on the local chain, and what the daemon released and took back. Everything is a call of the chain's own control
 * methods (`local_*`), which no client reaches.
 */
export function createPlayground(context: PageContext, { chain, random }: PlaygroundParts): Playground {
  const { guard } = context;
  const watch = createBlockWatch();

  /** Throws 501 where the daemon follows a real chain. */
  function localChain(): ChainReader {
    if (chain?.status().kind !== 'local') throw missing('only a daemon that runs its local chain has a playground');
    return chain;
  }

  async function act<T>(request: Pick<RouteRequest, 'remoteAddress'>, session: Session, action: Action): Promise<T> {
    const local = localChain();
    const entry = { action: `playground.${action.name}`, target: action.target };
    return await audited(context, request, session, entry, () =>
      told(local.call<T>(action.method, action.params, CALL)),
    );
  }

  const pay = (name: 'airdrop' | 'transfer') =>
    defineRoute({
      ...PAGE_ROUTE,
      method: 'POST',
      path: `${API}/playground/${name}`,
      summary:
        name === 'airdrop'
          ? 'Airdrop on the local chain'
          : 'Transfer from the payer of the local chain, a wallet of its demo',
      body: Type.Object({
        address: orNull(address('Receiver; null: a fresh address')),
        lamports: Type.Integer({ minimum: 1, maximum: MAX_LAMPORTS, description: 'Amount in lamports' }),
      }),
      replies: { 200: paid, ...REPLIES },
      async handler(request) {
        const session = guard.change(request);
        demandOperator(session);
        const { lamports } = request.body;
        const seed = request.body.address === null ? random.bytes(SEED_BYTES) : null;
        const to = request.body.address ?? encode32(publicKeyOf(seed as Uint8Array));
        const method = name === 'airdrop' ? 'local_fund' : 'local_pay';
        const action = { name, target: `${lamports} lamports to ${to}`, method, params: [to, lamports] };
        const sent = await act<string>(request, session, action);
        return json({ signature: sent, address: to, keypair: seed === null ? null : keypairText(seed) });
      },
    });

  const routes = [
    defineRoute({
      ...PAGE_ROUTE,
      method: 'GET',
      path: `${API}/playground`,
      summary: 'The local chain: its payer, how deep it forks, and what the daemon released of it',
      replies: { 200: view, ...REPLIES },
      async handler(request) {
        demandOperator(guard.enter(request));
        const local = localChain();
        const info = await told(local.call<LocalInfo>('local_info', [], CALL));
        await watch.readSignatures(local);
        return json({
          canFork: info.maxForkDepth > 0,
          maxForkDepth: Math.min(info.maxForkDepth, watch.maxForkDepth()),
          payer: info.payer,
          blocks: watch.blocks(local.status().finalizedSlot),
        });
      },
    }),
    pay('airdrop'),
    pay('transfer'),
    defineRoute({
      ...PAGE_ROUTE,
      method: 'POST',
      path: `${API}/playground/fork`,
      summary: 'Drop the newest blocks of the local chain and build another branch',
      body: Type.Object({
        depth: Type.Integer({ minimum: 1, maximum: MAX_DEPTH, description: 'Blocks to drop' }),
        keepsTransactions: Type.Boolean({
          description: 'Run the transactions of these blocks again in the new branch',
        }),
      }),
      replies: { 200: forkReport, ...REPLIES },
      async handler(request) {
        const session = guard.change(request);
        demandOperator(session);
        const { depth, keepsTransactions } = request.body;
        localChain();
        const most = watch.maxForkDepth();
        if (depth > most)
          throw new RequestError(400, `The daemon can follow a fork of at most ${most} blocks`, {
            details: 'it has not released more since it was started, or does not remember them',
          });
        const params = [{ depth, replay: keepsTransactions ? 'all' : 'none' }];
        const action = { name: 'fork', target: `${depth} blocks`, method: 'local_fork', params };
        return json(await act<ForkAnswer>(request, session, action));
      },
    }),
  ];

  return {
    routes,
    start: () => (chain?.status().kind === 'local' ? chain.onReleased(watch.released) : () => {}),
  };
}

interface Action {
  readonly name: string;
  readonly target: string;
  readonly method: string;
  readonly params: readonly unknown[];
}

const UNKNOWN_METHOD = -32601;

/** What the chain refuses becomes an error of the caller. */
async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    const { rpcCode } = (error as { readonly facts: { readonly rpcCode?: unknown } }).facts;
    if (rpcCode === UNKNOWN_METHOD)
      throw new RequestError(409, 'The local chain takes no orders', { details: 'set upstream.local.control to true' });
    throw new RequestError(400, messageOf(error).replace(/^local_\w+: /, ''));
  }
}

interface SeenBlock {
  readonly slot: number;
  readonly blockhash: string;
  isRolledBack: boolean;
  signatures: readonly string[] | null;
}

/** For blocks that stand, and again for blocks that were rolled back: a fork releases many at once. */
const MAX_BLOCKS = 128;
/** Blocks whose transactions are asked for at once. */
const MAX_READ = 20;

function newest(blocks: readonly SeenBlock[]): readonly SeenBlock[] {
  const of = (isRolledBack: boolean) => blocks.filter((one) => one.isRolledBack === isRolledBack).slice(-MAX_BLOCKS);
  const kept = new Set([...of(false), ...of(true)]);
  return blocks.filter((one) => kept.has(one));
}

/** The last blocks that were released, with those that were taken back. */
function createBlockWatch() {
  /** Oldest first. */
  let seen: readonly SeenBlock[] = [];
  return {
    released({ slot, blockhash, previousBlockhash }: BlockHeader): void {
      const parent = seen.findLastIndex((one) => !one.isRolledBack && one.blockhash === previousBlockhash);
      // What stands above its parent is no longer a part of the chain, nor is another block of its slot.
      for (const [at, one] of seen.entries())
        if (one.slot >= slot || (parent !== -1 && at > parent)) one.isRolledBack = true;
      const next = { slot, blockhash, isRolledBack: false, signatures: null };
      seen = newest([...seen, next]);
    },
    /** Asks the chain for the transactions of blocks that it still has. */
    async readSignatures(chain: ChainReader): Promise<void> {
      const unread = seen
        .filter(({ signatures, isRolledBack }) => signatures === null && !isRolledBack)
        .slice(-MAX_READ);
      await Promise.all(
        unread.map(async (one) => {
          const found = await chain
            .call<{ readonly blockhash: string; readonly signatures: readonly string[] } | null>(
              'getBlock',
              [
                one.slot,
                {
                  commitment: 'confirmed',
                  transactionDetails: 'signatures',
                  rewards: false,
                  maxSupportedTransactionVersion: 1,
                },
              ],
              CALL,
            )
            // It was dropped meanwhile.
            .catch(() => null);
          if (found?.blockhash === one.blockhash) one.signatures = found.signatures;
        }),
      );
    },
    /** Blocks that the daemon certainly can roll back: it knows the one below them. */
    maxForkDepth: () => Math.max(0, seen.filter(({ isRolledBack }) => !isRolledBack).length - 1),
    /** Newest first. */
    blocks(finalizedSlot: number | null) {
      const stateOf = ({ slot, isRolledBack }: SeenBlock) =>
        isRolledBack ? 'rolled back' : finalizedSlot !== null && slot <= finalizedSlot ? 'final' : 'confirmed';
      return seen
        .map((one) => ({
          slot: one.slot,
          blockhash: one.blockhash,
          state: stateOf(one),
          signatures: one.signatures,
        }))
        .toReversed();
    },
  };
}
