/** The normal form of each method: which parts of its answers carry meaning, and how they are compared. */

/** Patterns of paths: `*` stands for one member, and a last `**` for everything below. */
export interface Rules {
  /** Not compared: they differ between two servers that are both right. */
  readonly ignored: readonly string[];
  /** Compared by type only: estimates, and values that move with every block. */
  readonly shapeOnly: readonly string[];
  /** Numbers of slots or blocks, equal within the allowed distance. */
  readonly slots: readonly string[];
  /** Lists whose order carries no meaning. */
  readonly unordered: readonly string[];
  /** Members that only one of the two documents: their absence is no difference. */
  readonly oneSided: readonly string[];
}

/** Where the next page begins: a text that only the server that wrote it can read. Whether there is one is compared. */
const CURSORS = [
  'result.paginationKey',
  'result.value.paginationKey',
  'result.paginationToken',
  'paginationToken',
  'result.cursor',
  'result.value.cursor',
  'pagination.nextCursor',
];

const EVERYWHERE: Rules = {
  ignored: ['result.context.apiVersion'],
  shapeOnly: CURSORS,
  slots: ['result.context.slot', 'context.slot', 'result.last_indexed_slot', 'last_indexed_slot'],
  unordered: [],
  oneSided: [],
};

const shape: Partial<Rules> = { shapeOnly: ['result', 'result.**', 'result[]', 'result[].**'] };
const slotResult: Partial<Rules> = { slots: ['result'] };
const byOwner: Partial<Rules> = { unordered: ['result.value', 'result', 'result.accounts'] };
const signatures: Partial<Rules> = { ignored: ['result[].confirmationStatus', 'result.value[].confirmationStatus'] };
const assetList: Partial<Rules> = {
  slots: ['result.items[].last_indexed_slot'],
  oneSided: ['result.items[].last_indexed_slot', 'result.last_indexed_slot'],
};
const prices: Partial<Rules> = {
  shapeOnly: ['totalUsdValue', 'balances[].pricePerToken', 'balances[].usdValue'],
};

const BY_METHOD: Readonly<Record<string, Partial<Rules>>> = {
  getSlot: slotResult,
  getBlockHeight: slotResult,
  getMaxRetransmitSlot: slotResult,
  getMaxShredInsertSlot: slotResult,
  getIndexerSlot: slotResult,
  getFirstAvailableBlock: shape,
  minimumLedgerSlot: shape,
  getHighestSnapshotSlot: shape,
  getTransactionCount: shape,
  getVersion: { ignored: ['result.**', 'result'] },
  getIdentity: shape,
  getClusterNodes: { ignored: ['result'] },
  getVoteAccounts: { ignored: ['result.**'] },
  getLeaderSchedule: {},
  getSlotLeader: shape,
  getSlotLeaders: shape,
  getRecentPerformanceSamples: { ignored: ['result'] },
  getRecentPrioritizationFees: { ignored: ['result'] },
  getPriorityFeeEstimate: shape,
  getLatestBlockhash: { shapeOnly: ['result.value.blockhash'], slots: ['result.value.lastValidBlockHeight'] },
  getEpochInfo: {
    slots: ['result.absoluteSlot', 'result.blockHeight', 'result.slotIndex'],
    shapeOnly: ['result.transactionCount'],
  },
  getSupply: { shapeOnly: ['result.value.*'] },
  getProgramAccounts: byOwner,
  getProgramAccountsV2: byOwner,
  getTokenAccountsByOwner: byOwner,
  getTokenAccountsByDelegate: byOwner,
  getTokenAccountsByOwnerV2: byOwner,
  getSignaturesForAddress: signatures,
  getSignatureStatuses: {
    ignored: ['result.value[].confirmationStatus', 'result.value[].confirmations'],
  },
  getAsset: { oneSided: ['result.last_indexed_slot', 'result.mint_extensions'] },
  getAssetBatch: { slots: ['result[].last_indexed_slot'], oneSided: ['result[].last_indexed_slot'] },
  getAssetsByOwner: assetList,
  getAssetsByGroup: assetList,
  getAssetsByCreator: assetList,
  getAssetsByAuthority: assetList,
  searchAssets: assetList,
  getTokenAccounts: { oneSided: ['result.last_indexed_slot'], unordered: ['result.token_accounts'] },
  getIndexerHealth: {},
  'GET /v1/wallet/:wallet/balances': prices,
};

/** The rules of a method or route, with paths that the operator adds to the ignored ones. */
export function rulesOf(method: string, ignored: readonly { readonly method: string; readonly path: string }[]): Rules {
  const own = BY_METHOD[method] ?? {};
  const more = ignored.filter((one) => one.method === method || one.method === '*').map(({ path }) => path);
  const joined = (name: keyof Rules) => [...EVERYWHERE[name], ...(own[name] ?? [])];
  return {
    ignored: [...joined('ignored'), ...more],
    shapeOnly: joined('shapeOnly'),
    slots: joined('slots'),
    unordered: joined('unordered'),
    oneSided: joined('oneSided'),
  };
}

/** Whether one of the patterns stands for the path. */
export function matchesPattern(patterns: readonly string[], path: string): boolean {
  return patterns.some((pattern) => pattern === path || (pattern.includes('*') && fits(pattern, path)));
}

function fits(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split('.'), path.split('.')];
  for (const [at, part] of wanted.entries()) {
    if (part === '**') return given.length > at;
    const name = given[at];
    if (name === undefined || (part !== '*' && part !== name)) return false;
  }
  return wanted.length === given.length;
}
