import type { Price, RateGroup } from '../../src/plugin/plugin.ts';
import type { ProxyConfig } from './config.ts';

/** Methods that read the archive. */
const HISTORICAL = [
  'getBlock',
  'getBlocks',
  'getBlocksWithLimit',
  'getSignaturesForAddress',
  'getTransaction',
  'getBlockTime',
  'getInflationReward',
];

const DAS = [
  'getAsset',
  'getAssetBatch',
  'getAssetProof',
  'getAssetProofs',
  'getAssetProofBatch',
  'getAssets',
  'getNftEditions',
  'getSignaturesForAsset',
  'getTokenAccounts',
  'searchAssets',
];

/** Compression methods whose names do not contain the word. */
const COMPRESSION = [
  'getMultipleNewAddressProofs',
  'getMultipleNewAddressProofsV2',
  'getIndexerHealth',
  'getIndexerSlot',
  'getLatestNonVotingSignatures',
];

/** Methods with a separate rate, in addition to that of their group. */
const OWN_GROUP = ['sendTransaction', 'simulateBundle'];
/** Number of full results of getTransactionsForAddress per price; also the default limit. */
const FULL_RESULTS = 100;

export type PriceOf = (method: string, params: () => unknown) => Price;

/** The price list of proxied methods. A compression method costs the same whether a plugin or an upstream answers it. */
export function createPrices(credits: ProxyConfig['credits']): PriceOf {
  const price = (product: Price['product'], of: keyof ProxyConfig['credits'], ...groups: RateGroup[]): Price => ({
    product,
    get credits() {
      return credits[of];
    },
    groups,
  });
  const standard = price('rpc', 'standard', 'rpc');
  const historical = price('archival', 'historical', 'rpc');
  const das = price('das', 'das', 'das');
  const compression = price('photon', 'compression', 'photon');
  const proof = price('photon', 'validityProof', 'photon', 'getValidityProof');
  const history = (lots: number): Price => {
    const amount = credits.transactionsForAddress * lots;
    return { product: 'archival', credits: amount, groups: ['rpc'] };
  };
  const fixed = new Map<string, Price>([
    ...HISTORICAL.map((method) => [method, historical] as const),
    ...DAS.map((method) => [method, das] as const),
    ...COMPRESSION.map((method) => [method, compression] as const),
    ...OWN_GROUP.map((method) => [method, price('rpc', 'standard', 'rpc', method)] as const),
    ['getProgramAccounts', price('rpc', 'programAccounts', 'rpc', 'getProgramAccounts')],
    ['sendBundle', price('rpc', 'sendBundle', 'rpc', 'sendBundle')],
    ['getValidityProof', proof],
    ['getValidityProofV2', proof],
  ]);
  return (method, params) => {
    const known = fixed.get(method);
    if (known !== undefined) return known;
    if (method === 'getTransactionsForAddress') return history(lotsOf(params()));
    if (method === 'getSignatureStatuses') return searchesHistory(params()) ? historical : standard;
    if (method.startsWith('getAssetsBy')) return das;
    return method.includes('Compress') ? compression : standard;
  };
}

/** Full transactions requested, in hundreds, rounded up; a list of signatures counts as one. */
function lotsOf(params: unknown): number {
  const options = Array.isArray(params)
    ? (params[1] as { transactionDetails?: unknown; limit?: unknown } | null)
    : null;
  if (options?.transactionDetails !== 'full') return 1;
  const { limit } = options;
  return typeof limit === 'number' && limit > FULL_RESULTS ? Math.ceil(Math.min(limit, 1_000) / FULL_RESULTS) : 1;
}

function searchesHistory(params: unknown): boolean {
  const options = Array.isArray(params) ? (params[1] as unknown) : undefined;
  return typeof options === 'object' && options !== null && 'searchTransactionHistory' in options
    ? options.searchTransactionHistory === true
    : false;
}
