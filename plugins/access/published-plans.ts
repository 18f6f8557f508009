import type { PlansFile } from './plans.ts';

const MIB = 2 ** 20;
const ADDRESSES = 100_000;
/** Of every plan but `unlimited`. */
const batch = {
  maxItems: 100,
  historicalMax: 10,
  getTransactionMax: 100,
  notBatchable: ['getTransactionsForAddress', 'getSignaturesForAddress'],
};

const free = {
  creditsLimit: 1_000_000,
  invoiced: false,
  features: { paidWallet: false },
  ratePerSecond: {
    ...{ rpc: 10, das: 2, sendTransaction: 1, sendBundle: 0, simulateBundle: 10, getProgramAccounts: 5 },
    ...{ photon: 2, getValidityProof: 1, sender: 50 },
  },
  webhooks: { max: 5, addressesPerWebhook: ADDRESSES },
  batch,
  budgets: {
    ...{ requestBytes: 16 * MIB, answerBytes: 32 * MIB, upstreamCalls: 16 },
    ...{ sockets: 50, subscriptions: 1_000, subscriptionBytes: 1_000_000 },
    ...{ newWalletsPerMinute: 10, wallets: 100, walletTransactions: 1_000_000 },
    ...{ storedEvents: 10_000, storedEventBytes: 64 * MIB, replays: 1 },
    ...{ streams: 5, streamFilters: 64, streamFilterBytes: MIB, passedStreams: 1 },
  },
  priceUsd: 0,
};

const developer = {
  creditsLimit: 10_000_000,
  invoiced: true,
  features: { paidWallet: true },
  ratePerSecond: {
    ...{ rpc: 50, das: 10, sendTransaction: 5, sendBundle: 0, simulateBundle: 50, getProgramAccounts: 25 },
    ...{ photon: 10, getValidityProof: 5, sender: 50 },
  },
  webhooks: { max: 50, addressesPerWebhook: ADDRESSES },
  batch,
  budgets: {
    ...{ requestBytes: 64 * MIB, answerBytes: 128 * MIB, upstreamCalls: 32 },
    ...{ sockets: 250, subscriptions: 1_000, subscriptionBytes: 1_000_000 },
    ...{ newWalletsPerMinute: 60, wallets: 1_000, walletTransactions: 10_000_000 },
    ...{ storedEvents: 100_000, storedEventBytes: 512 * MIB, replays: 2 },
    ...{ streams: 20, streamFilters: 256, streamFilterBytes: 16 * MIB, passedStreams: 5 },
  },
  priceUsd: 49,
};

const business = {
  ...developer,
  creditsLimit: 100_000_000,
  ratePerSecond: {
    ...{ rpc: 200, das: 50, sendTransaction: 50, sendBundle: 5, simulateBundle: 200, getProgramAccounts: 50 },
    ...{ photon: 50, getValidityProof: 10, sender: 50 },
  },
  budgets: {
    ...{ requestBytes: 128 * MIB, answerBytes: 256 * MIB, upstreamCalls: 48 },
    ...{ sockets: 1_000, subscriptions: 4_000, subscriptionBytes: 4_000_000 },
    ...{ newWalletsPerMinute: 300, wallets: 10_000, walletTransactions: 50_000_000 },
    ...{ storedEvents: 500_000, storedEventBytes: 2_048 * MIB, replays: 5 },
    ...{ streams: 100, streamFilters: 1_024, streamFilterBytes: 64 * MIB, passedStreams: 20 },
  },
  priceUsd: 499,
};

/**
 * The plans without `access.plansFile`: the numbers that the hosted service publishes, and `unlimited`. `config/plans.yaml` says the same to
 * those who write their own; to read it cost a tenth of a second of each thread's start.
 */
export const PUBLISHED_PLANS: PlansFile = {
  plans: {
    free,
    agent: { ...free, features: { paidWallet: true }, priceUsd: 1 },
    developer,
    business,
    professional: {
      ...business,
      creditsLimit: 200_000_000,
      ratePerSecond: {
        ...{ rpc: 500, das: 100, sendTransaction: 100, sendBundle: 5, simulateBundle: 500, getProgramAccounts: 75 },
        ...{ photon: 100, getValidityProof: 20, sender: 50 },
      },
      priceUsd: 999,
    },
    unlimited: {
      // A number, because clients read an integer: the largest that JavaScript can hold.
      creditsLimit: Number.MAX_SAFE_INTEGER,
      // Nothing is invoiced. Typed clients demand a billing cycle of every plan but the free ones.
      invoiced: true,
      features: { paidWallet: true },
      ratePerSecond: {},
      webhooks: { max: null, addressesPerWebhook: ADDRESSES },
      batch: { maxItems: 1_000 },
      priceUsd: 0,
    },
  },
  burstFactor: 2,
  paidWalletEndpoints: ['identity', 'batch-identity', 'funded-by'],
};
