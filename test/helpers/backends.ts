import { chainMissing, startChain } from './chain.ts';
import { startSurfpool, surfpoolMissing } from './surfpool.ts';

/** What a chain offers beyond answering like a node. */
export type Capability = 'batch' | 'forks' | 'skips' | 'faults' | 'light' | 'recorded';

/** Where the third-party node differs from a Solana node. A relaxed assertion names the quirk that it is relaxed for. */
const QUIRKS = {
  noBatch: 'an array of calls is refused as a whole with -32600',
  parsedBlocks: 'getBlock without an encoding is jsonParsed, without loadedAddresses: web3.js cannot read it',
  recordTime: 'blockTime of getTransaction is a thousandth of the unix time',
  unsteadyTime: 'the time of a slot depends, by a second or so, on where and when one asks',
  recordLinks: 'blocks with transactions name themselves as parent (the helper proxy repairs that)',
  silentSignature: 'signatureSubscribe of a transaction that is just being executed never notifies (repaired too)',
  futureNull: 'getBlock of a slot that is not there yet is null, not -32004',
  versionUnchecked: 'getTransaction answers a v0 transaction without maxSupportedTransactionVersion too, not -32015',
  loadedUnlisted: 'addresses that only a lookup table names are not in getSignaturesForAddress',
  noRootSubscribe: 'rootSubscribe is refused with -32091',
  paddedAmount: 'uiAmountString keeps trailing zeros, and getTokenSupply gives the raw amount there',
  emptyReturnData: 'returnData is there, and empty, where the transaction returned nothing',
  baseFeeOnly: 'meta.fee leaves the priority fee out, although it is taken',
  logsInMessage: 'the message of a failed preflight goes on with the log lines',
  closedTokens: 'postTokenBalances keep an account that the transaction closed',
} as const;

export type Quirk = keyof typeof QUIRKS;

export interface RunningBackend {
  /** What a daemon follows. */
  readonly rpcUrl: string;
  readonly wsUrl: string;
  /** Resolves when the lamports are there at `confirmed`. */
  fund(address: string, lamports: number): Promise<void>;
  stop(): Promise<void>;
}

export interface Backend {
  readonly name: string;
  readonly capabilities: ReadonlySet<Capability>;
  readonly quirks: ReadonlySet<Quirk>;
  /** Why it cannot run here, or null. */
  missing(): Promise<string | null>;
  /** Starts one that makes a block every `SLOT_MS`. */
  start(): Promise<RunningBackend>;
}

/** web3.js uses a blockhash for 30 s. It lives for 150 slots, so with 400 ms it outlives that by half a minute, also on a busy machine. */
const SLOT_MS = 400;
/** Less than a node's 32, which web3.js would take off the life of the hash, as it asks for a final one. */
const FINALITY_DEPTH = 4;

export const localChain: Backend = {
  name: 'local chain',
  capabilities: new Set<Capability>(['batch', 'forks', 'skips', 'faults', 'light', 'recorded']),
  quirks: new Set<Quirk>(),
  missing: chainMissing,
  async start() {
    const { rpcUrl, wsUrl, fund, stop } = await startChain({
      slotMs: SLOT_MS,
      finalityDepth: FINALITY_DEPTH,
      time: { kind: 'wall' },
    });
    return {
      rpcUrl,
      wsUrl,
      stop,
      async fund(address, lamports) {
        await fund(address, lamports);
      },
    };
  },
};

export const surfpool: Backend = {
  name: 'surfpool',
  capabilities: new Set<Capability>(),
  quirks: new Set(Object.keys(QUIRKS) as Quirk[]),
  async missing() {
    const reason = surfpoolMissing();
    if (reason !== null) console.error(`SKIPPED: ${reason}`);
    return reason;
  },
  async start() {
    const { rpcUrl, wsUrl, fund, stop } = await startSurfpool(SLOT_MS);
    return { rpcUrl, wsUrl, fund, stop };
  },
};

/** One suite runs on each of them. */
export const backends: readonly Backend[] = [localChain, surfpool];
