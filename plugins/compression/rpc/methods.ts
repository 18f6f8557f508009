import { Type } from '@sinclair/typebox';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainReader, PluginContext, RpcMethod } from '../../../src/plugin/plugin.ts';
import type { CompressionConfig } from '../config.ts';
import type { CompressionDb } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { knownTrees, type NewTree } from '../trees/tree-book.ts';
import {
  getCompressedAccount,
  getCompressedAccountsByOwner,
  getCompressedBalance,
  getCompressedBalanceByOwner,
  getMultipleCompressedAccounts,
} from './accounts.ts';
import { createCompleteness } from './completeness.ts';
import { unavailable } from './fields.ts';
import { createSlotWatch, type MethodFactory, type MethodParts, plainMethod, requireIndexed } from './method.ts';
import {
  createProofs,
  getCompressedAccountProof,
  getMultipleCompressedAccountProofs,
  getMultipleNewAddressProofs,
  getMultipleNewAddressProofsV2,
} from './proofs.ts';
import { createProver } from './prover.ts';
import { getQueueElements, getQueueInfo } from './queue-elements.ts';
import {
  getCompressedMintTokenHolders,
  getCompressedTokenAccountBalance,
  getCompressedTokenAccounts,
  getCompressedTokenBalancesByOwner,
} from './tokens.ts';
import {
  getCompressionSignaturesFor,
  getCompressionSignaturesForAccount,
  getLatestCompressionSignatures,
  getLatestNonVotingSignatures,
  getTransactionWithCompressionInfo,
} from './transactions.ts';
import { getValidityProof, getValidityProofV2 } from './validity.ts';

/** The methods and their background work. */
interface RpcFront {
  readonly methods: readonly RpcMethod[];
  start(): void;
  stop(): void;
}

/** Assembles the methods; `more` and `lists` come from other parts of the plugin. */
export function createCompressionRpc(
  ctx: PluginContext<CompressionConfig>,
  more: readonly MethodFactory[] = [],
  lists: readonly ((parts: MethodParts) => readonly RpcMethod[])[] = [],
): RpcFront {
  const { config, store, clock, log } = ctx;
  const chain = ctx.chain('main');
  const slots = createSlotWatch({ store, clock, chain, log });
  const parts: MethodParts = { store, slots, clock, completeness: createCompleteness({ store, chain, clock }) };
  const own = compressedAccountMethods({ chain, programId: config.programId, trees: knownTrees(config.trees) });
  return {
    methods: [...[...own, ...more].map((make) => make(parts)), ...lists.flatMap((make) => make(parts))],
    start: slots.start,
    stop: slots.stop,
  };
}

interface AccountMethodsParts {
  readonly chain: ChainReader | null;
  /** Account-compression program, base58. */
  readonly programId: string;
  /** Trees whose proofs must be available for the indexer to be healthy. */
  readonly trees: readonly NewTree[];
}

/** All methods except those about proofs and queues. */
export function compressedAccountMethods(parts: AccountMethodsParts): readonly MethodFactory[] {
  const both = [1, 2] as const;
  return [
    ...both.flatMap((version) => [
      getCompressedAccount(version),
      getMultipleCompressedAccounts(version),
      getCompressedAccountsByOwner(version),
      getCompressedTokenAccounts('owner', version),
      getCompressedTokenAccounts('delegate', version),
      getCompressedTokenBalancesByOwner(version),
      getTransactionWithCompressionInfo(parts, version),
    ]),
    getCompressedBalance(),
    getCompressedBalanceByOwner(),
    getCompressedTokenAccountBalance(),
    getCompressedMintTokenHolders(),
    getCompressionSignaturesForAccount(),
    getCompressionSignaturesFor('address'),
    getCompressionSignaturesFor('owner'),
    getCompressionSignaturesFor('tokenOwner'),
    getLatestCompressionSignatures(),
    getLatestNonVotingSignatures(),
    getIndexerHealth(parts),
    getIndexerSlot(),
  ];
}

interface ProofMethods {
  readonly factories: readonly MethodFactory[];
  stop(): Promise<void>;
}

type ProofContext = Pick<
  PluginContext<CompressionConfig>,
  'config' | 'store' | 'log' | 'clock' | 'metrics' | 'outbound'
>;

/** The methods about proofs and queues. No other thread uses `hashing`. */
export function createProofMethods(ctx: ProofContext, hashing: Hashing): ProofMethods {
  const { config } = ctx;
  const proofs = createProofs({ ...ctx, hashing, known: knownTrees(config.trees) });
  const prover = createProver(ctx);
  const withProver = { proofs, prover, proverTimeoutMs: config.proverTimeoutMs };
  return {
    factories: [
      ...([1, 2] as const).flatMap((version): MethodFactory[] => [
        ({ slots }) => getCompressedAccountProof(slots, proofs, version),
        (parts) => getMultipleCompressedAccountProofs({ ...parts, proofs }, version),
      ]),
      (parts) => getMultipleNewAddressProofs({ ...parts, proofs }),
      (parts) => getMultipleNewAddressProofsV2({ ...parts, proofs }),
      (parts) => getValidityProof({ ...parts, ...withProver }),
      (parts) => getValidityProofV2({ ...parts, ...withProver }),
      (parts) => getQueueElements({ ...parts, proofs }),
      getQueueInfo,
    ],
    stop: () => prover.close(),
  };
}

/** Allowed lag in slots: the hosted API counts slots here, whatever their length. */
const MAX_LAG_SLOTS = 20;

interface HealthParts {
  readonly chain: ChainReader | null;
  /** Trees whose proofs must be available. */
  readonly trees: readonly NewTree[];
}

/** getIndexerHealth */
const getIndexerHealth =
  ({ chain, trees }: HealthParts): MethodFactory =>
  ({ store, slots }) =>
    plainMethod(slots, {
      name: 'getIndexerHealth',
      summary:
        '"ok", or an error with the reason: the index is behind the chain, or a well-known tree cannot be proved',
      fields: {},
      result: Type.Literal('ok'),
      run: async () => {
        const slot = await slots.newest();
        requireIndexed(slot);
        const tip = chain?.status().tipSlot ?? null;
        if (chain !== null && tip === null) throw unavailable('the slot of the chain is not known');
        const lagSlots = (tip ?? slot) - slot;
        if (lagSlots > MAX_LAG_SLOTS) throw unavailable(`Node is behind ${lagSlots} slots`);
        const refused = await (store.read as CompressionDb)
          .selectFrom('compression_trees')
          .select(['key', 'status'])
          .where('status', 'in', ['gap', 'diverged'])
          .where('key', 'in', [...trees.map(({ key }) => key)])
          .orderBy('id')
          .executeTakeFirst();
        if (refused !== undefined)
          throw unavailable(`Merkle tree ${encode32(refused.key)} is in the state ${refused.status}`);
        return 'ok';
      },
    });

/** getIndexerSlot: from memory, because clients poll ten times a second. */
const getIndexerSlot = (): MethodFactory => (parts) =>
  plainMethod(parts.slots, {
    name: 'getIndexerSlot',
    summary: 'The newest slot that is indexed',
    fields: {},
    result: Type.Integer({ description: 'slot' }),
    run: async () => {
      const slot = await parts.slots.newest();
      requireIndexed(slot);
      return slot;
    },
  });
