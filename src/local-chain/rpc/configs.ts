import type { Commitment } from '../ledger/types.ts';
import {
  choice,
  either,
  flag,
  lenient,
  list,
  maybe,
  name,
  or,
  type Read,
  required,
  type Struct,
  struct,
  text,
  type Unsigned,
  u8,
  u64,
  usize,
} from './deserialize.ts';

/** The configuration objects of a node's methods, by the names that its errors call them. */

const commitmentLevel: Read<Commitment> = name('processed', 'confirmed', 'finalized');
const accountEncoding = name('binary', 'base58', 'base64', 'jsonParsed', 'base64+zstd');
const transactionEncoding = name('binary', 'base64', 'base58', 'json', 'jsonParsed');
export type AccountEncoding = ReturnType<typeof accountEncoding>;
export type WireEncoding = ReturnType<typeof transactionEncoding>;

const flat = { flat: true };
/** A commitment inside of another configuration: what is not one counts as none. */
const inner = or<Commitment | undefined>(lenient(commitmentLevel), undefined);
const context = { commitment: inner, minContextSlot: maybe(u64) };
const slice = struct('UiDataSliceConfig', { offset: required(usize), length: required(usize) });
const account = { encoding: maybe(accountEncoding), dataSlice: maybe(slice), ...context };

export interface ContextConfig {
  readonly commitment?: Commitment | undefined;
  readonly minContextSlot?: Unsigned | undefined;
}
export type AccountConfig = Struct<typeof account>;

export const commitmentConfig = struct('CommitmentConfig', { commitment: required(commitmentLevel) });
export const contextConfig = struct('RpcContextConfig', context, flat);
export const accountConfig = struct('RpcAccountInfoConfig', account, flat);

const memcmp = struct(
  'Memcmp',
  {
    offset: required(usize),
    bytes: required(either('DataType', text, list(u8))),
    encoding: maybe(name('base58', 'base64', 'bytes')),
  },
  flat,
);
const filter = choice({ dataSize: u64, memcmp, tokenAccountState: null });
export type AccountFilter = ReturnType<typeof filter>;
export const programAccountsConfig = struct(
  'RpcProgramAccountsConfig',
  { filters: maybe(list(filter)), ...account, withContext: maybe(flag), sortResults: maybe(flag) },
  flat,
);
export const tokenAccountsFilter = choice({ mint: text, programId: text });

const blockConfig = struct(
  'RpcBlockConfig',
  {
    encoding: maybe(transactionEncoding),
    transactionDetails: maybe(name('full', 'signatures', 'none', 'accounts')),
    rewards: maybe(flag),
    commitment: inner,
    maxSupportedTransactionVersion: maybe(u8),
  },
  flat,
);
const transactionConfig = struct(
  'RpcTransactionConfig',
  { encoding: maybe(transactionEncoding), commitment: inner, maxSupportedTransactionVersion: maybe(u8) },
  flat,
);
const onlyEncoding = (value: unknown) => ({ encoding: transactionEncoding(value) });
export const blockConfigOrEncoding = either<Partial<ReturnType<typeof blockConfig>>, ReturnType<typeof blockConfig>>(
  'RpcEncodingConfigWrapper',
  onlyEncoding,
  blockConfig,
);
export const transactionConfigOrEncoding = either<
  Partial<ReturnType<typeof transactionConfig>>,
  ReturnType<typeof transactionConfig>
>('RpcEncodingConfigWrapper', onlyEncoding, transactionConfig);
export const endSlotOrConfig = either('RpcBlocksConfigWrapper', u64, contextConfig);

export const signaturesConfig = struct(
  'RpcSignaturesForAddressConfig',
  { before: maybe(text), until: maybe(text), limit: maybe(usize), ...context },
  flat,
);
export const statusConfig = struct('RpcSignatureStatusConfig', { searchTransactionHistory: required(flag) });
export const sendConfig = struct('RpcSendTransactionConfig', {
  skipPreflight: or(flag, false),
  preflightCommitment: maybe(commitmentLevel),
  encoding: maybe(transactionEncoding),
  maxRetries: maybe(usize),
  minContextSlot: maybe(u64),
});
const simulatedAccounts = struct('RpcSimulateTransactionAccountsConfig', {
  encoding: maybe(accountEncoding),
  addresses: required(list(text)),
});
export const simulateConfig = struct(
  'RpcSimulateTransactionConfig',
  {
    sigVerify: or(flag, false),
    replaceRecentBlockhash: or(flag, false),
    commitment: inner,
    encoding: maybe(transactionEncoding),
    accounts: maybe(simulatedAccounts),
    minContextSlot: maybe(u64),
    innerInstructions: or(flag, false),
  },
  flat,
);
export const airdropConfig = struct(
  'RpcRequestAirdropConfig',
  { recentBlockhash: maybe(text), commitment: inner },
  flat,
);

export const leaderConfig = struct('RpcLeaderScheduleConfig', { identity: maybe(text), commitment: inner }, flat);
export const slotOrLeaderConfig = either('RpcLeaderScheduleConfigWrapper', u64, leaderConfig);
const productionRange = struct('RpcBlockProductionConfigRange', { firstSlot: required(u64), lastSlot: maybe(u64) });
export const productionConfig = struct(
  'RpcBlockProductionConfig',
  { identity: maybe(text), range: maybe(productionRange), commitment: inner },
  flat,
);
export const voteAccountsConfig = struct(
  'RpcGetVoteAccountsConfig',
  {
    votePubkey: maybe(text),
    commitment: inner,
    keepUnstakedDelinquents: maybe(flag),
    delinquentSlotDistance: maybe(u64),
  },
  flat,
);
export const largestConfig = struct(
  'RpcLargestAccountsConfig',
  { commitment: inner, filter: maybe(name('circulating', 'nonCirculating')), sortResults: maybe(flag) },
  flat,
);
export const supplyConfig = struct(
  'RpcSupplyConfig',
  { commitment: inner, excludeNonCirculatingAccountsList: or(flag, false) },
  flat,
);
export const rewardConfig = struct('RpcEpochConfig', { epoch: maybe(u64), ...context }, flat);

export const logsFilter = choice({ all: null, allWithVotes: null, mentions: list(text) });
export const logsConfig = struct('RpcTransactionLogsConfig', { commitment: inner }, flat);
export const signatureSubscribeConfig = struct(
  'RpcSignatureSubscribeConfig',
  { commitment: inner, enableReceivedNotification: maybe(flag) },
  flat,
);
