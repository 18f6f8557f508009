import { type PluginContext, type Price, Type } from '../../src/plugin/plugin.ts';
import { addressHistories, addressWalks, keptAnswers } from '../../src/ports/address-history.ts';
import { kernelJoinedHistory, kernelPast } from '../../src/ports/ledger.ts';
import { tokenFacts } from '../../src/ports/tokens.ts';
import { NATIVE_SOL_MINT } from '../../src/solana/programs.ts';
import { address, count, oneOf, orNull, signature, slot, text, unixTime } from '../../src/solana/schemas.ts';
import type { HistoryConfig } from './config.ts';
import { MAX_FULL, transactionsParams, transfersParams } from './question.ts';
import { createStandardAnswers, STANDARD_METHODS } from './standard.ts';
import { FULL_LOT, transactionsOf } from './transactions.ts';
import { transfersOf } from './transfers.ts';
import { createNewestSlot, createOpenWalk, createShownPlaces } from './walk.ts';

const TAG = { name: 'History', description: 'Transactions and transfers of any address, with filters, in both orders' };

const confirmationStatus = oneOf(['finalized', 'confirmed'], 'Whether a fork can still remove it');
const signatureEntry = Type.Object(
  {
    signature: signature(),
    slot: slot(),
    transactionIndex: count('Place in the block', 12),
    err: orNull(Type.Unknown({ description: 'Error of the transaction', examples: [null] })),
    memo: orNull(text('Memos', '[5] hello')),
    blockTime: orNull(unixTime()),
    confirmationStatus,
  },
  { title: 'HistorySignature', description: 'With `transactionDetails: signatures`' },
);
const fullEntry = Type.Object(
  {
    slot: slot(),
    transactionIndex: count('Place in the block', 12),
    blockTime: orNull(unixTime()),
    transaction: Type.Unknown({ description: 'As in getTransaction', examples: [['AQ==', 'base64']] }),
    meta: orNull(
      Type.Unknown({
        description: 'As in getTransaction',
        examples: [{ err: null, status: { Ok: null }, fee: 5_000 }],
      }),
    ),
    version: Type.Optional(
      Type.Unknown({ description: '`legacy` or a number; with maxSupportedTransactionVersion', examples: [0] }),
    ),
  },
  { title: 'HistoryTransaction', description: 'With `transactionDetails: full`' },
);
const transactionsPage = Type.Object(
  {
    data: Type.Array(Type.Union([signatureEntry, fullEntry]), { description: 'Transactions' }),
    paginationToken: orNull(text('Where the next page begins; null at the end', '381204511:12')),
  },
  { title: 'HistoryPage', description: 'A page of transactions' },
);
const raw = (description: string) => text(description, '2500000');
const transfer = Type.Object(
  {
    signature: signature(),
    slot: slot(),
    blockTime: unixTime(),
    type: oneOf(['transfer', 'mint', 'burn', 'wrap', 'unwrap', 'changeOwner', 'withdrawWithheldFee'], 'What moved it'),
    fromUserAccount: orNull(address('Owner that sent it; null for mints')),
    toUserAccount: orNull(address('Owner that received it; null for burns')),
    fromTokenAccount: Type.Optional(address('Token account it left')),
    toTokenAccount: Type.Optional(address('Token account it reached')),
    mint: address(`Mint; ${NATIVE_SOL_MINT} for SOL`),
    amount: raw('Raw units, with the fee'),
    feeAmount: Type.Optional(raw('Raw units that the mint withheld')),
    feeAccount: Type.Optional(address('Token account that holds the fee')),
    feeUiAmount: Type.Optional(text('The fee in whole tokens', '0.01')),
    decimals: count('Decimals of the mint', 6),
    uiAmount: text('Whole tokens', '2.5'),
    confirmationStatus,
    transactionIdx: count('Place in the block', 12),
    instructionIdx: count('Index of the instruction', 1),
    innerInstructionIdx: count('Index within its inner instructions; 0 for the instruction itself', 0),
  },
  { title: 'AddressTransfer', description: 'A transfer' },
);
const transfersPage = Type.Object(
  {
    data: Type.Array(transfer, { description: 'Transfers' }),
    paginationToken: orNull(text('Where the next page begins; null at the end', '381204511:12:1:0:2')),
  },
  { title: 'TransferPage', description: 'A page of transfers' },
);

export function provision(ctx: PluginContext<HistoryConfig>): void {
  const { config } = ctx;
  const open = ctx.use(addressHistories);
  const chain = ctx.chain('main');
  const past = ctx.use(kernelPast)?.('main') ?? null;
  const answers = ctx.metrics.counter('ledger_answers_total', 'standard calls answered from the ledger', ['method']);
  const counters = new Map(STANDARD_METHODS.map((method) => [method, answers.with(method)]));
  const joined = ctx.use(kernelJoinedHistory)?.('main') ?? null;
  if (chain !== null && joined !== null) {
    ctx.provide(
      keptAnswers,
      createStandardAnswers({
        past: () => (config.standard ? past : null),
        joined,
        finalizedSlot: () => chain.status().finalizedSlot,
        clock: ctx.clock,
        log: ctx.log,
        answered: (method) => counters.get(method)?.add(),
      }),
    );
    ctx.onStart(async () => {
      if (past !== null) joined.learnFirstSlot();
    });
  }
  if (chain === null || open === undefined) return;
  const parts = {
    open,
    newestSlot: createNewestSlot(chain),
    shown: createShownPlaces(),
    facts: ctx.use(tokenFacts) ?? null,
    scanLimit: () => config.scanLimit,
  };
  ctx.provide(addressWalks, createOpenWalk(parts));
  if (config.passOn) return;
  const priceOf = (credits: () => number): Price => ({
    product: 'archival',
    get credits() {
      return credits();
    },
    groups: ['rpc'],
  });
  const { credits } = config;
  const lots = Array.from({ length: MAX_FULL / FULL_LOT }, (_, at) =>
    priceOf(() => credits.transactionsForAddress * (at + 1)),
  );
  ctx.rpc.method({
    name: 'getTransactionsForAddress',
    summary: 'Transactions of an address with filters, oldest or newest first',
    description:
      'Also those of its token accounts, if wanted. The address is indexed with the first call, which may answer 503 with a time for the next one.',
    tag: TAG,
    auth: 'key',
    price: lots[0]!,
    priceOf: (params) => lots[Math.min(lots.length, lotsOf(params)) - 1]!,
    get timeoutMs() {
      return config.timeoutMs;
    },
    params: transactionsParams,
    checksParams: true,
    exactIntegers: true,
    result: transactionsPage,
    handler: ({ params, caller, signal }) =>
      transactionsOf(parts, params, { caller, signal }, credits.transactionsForAddress),
  });
  ctx.rpc.method({
    name: 'getTransfersByAddress',
    summary: 'Transfers of SOL and tokens to and from an owner',
    description:
      'One row for each instruction that moved something. The address is indexed with the first call, which may answer 503 with a time for the next one.',
    tag: TAG,
    auth: 'key',
    price: priceOf(() => credits.transfersByAddress),
    get timeoutMs() {
      return config.timeoutMs;
    },
    params: transfersParams,
    checksParams: true,
    exactIntegers: true,
    result: transfersPage,
    handler: ({ params, caller, signal }) => transfersOf(parts, params, { caller, signal }),
  });
}

/** Full transactions that may be returned, in hundreds, rounded up; the call is charged for those that are. */
function lotsOf(params: unknown): number {
  const options = Array.isArray(params)
    ? (params[1] as { transactionDetails?: unknown; limit?: unknown } | null)
    : null;
  if (options?.transactionDetails !== 'full') return 1;
  const { limit } = options;
  return typeof limit === 'number' && limit > FULL_LOT ? Math.ceil(Math.min(limit, MAX_FULL) / FULL_LOT) : 1;
}
