import { encode } from '../../../src/lib/base58.ts';
import {
  atMost,
  commitmentConfig,
  contextConfig,
  invalidParams,
  leaderConfig,
  list,
  productionConfig,
  pubkey,
  RPC,
  rankMapConfig,
  rewardConfig,
  rpcError,
  sealedOnly,
  slotOrLeaderConfig,
  small,
  text,
  type Unsigned,
  u64,
  usize,
  voteAccountsConfig,
} from '../encode/params.ts';
import { genesisHashOf } from '../ledger/genesis.ts';
import type { LedgerBlock } from '../ledger/state.ts';
import {
  bankOf,
  changedIn,
  contextSlot,
  inContext,
  isSince,
  LOCAL_API_VERSION,
  type LocalNode,
  type Methods,
  method,
  unknownMethod,
} from './method.ts';

const SLOTS_PER_EPOCH = 432_000;
const STAKE_LAMPORTS = 999_999_997_717_120;
const MIN_DELEGATION_LAMPORTS = 1_000_000_000;
const MAX_LEADERS = 5_000;
const MAX_SAMPLES = 720;
const MAX_REWARD_ADDRESSES = 32;
/** Past epochs whose rank map a node keeps (Agave 4.5.0-alpha.4). */
const RANK_MAP_EPOCHS = 3;
/** The BLS key of the only validator: the generator of G1, compressed, because it signs nothing. */
const BLS_KEY = encode(
  Buffer.from(
    '97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb',
    'hex',
  ),
);
/** Interval of a node's snapshots. */
const SNAPSHOT_SLOTS = 100;
const SAMPLE_SECONDS = 60;
/** Length of the list in `getBlockCommitment`: stake by number of confirmations, the last entry for roots. */
const LOCKOUTS = 32;
const INFLATION = { initial: 0.08, terminal: 0.015, taper: 0.15, foundation: 0.05, foundationTerm: 7 };
const SLOTS_PER_YEAR = 78_892_314.984;

/** Answer of a node that has had Alpenglow from slot 0 on (Agave 4.4.0). */
const GENESIS_CERTIFICATE = {
  block: { slot: 0, blockId: new Array<number>(32).fill(0) },
  signature: { signature: new Array<number>(192).fill(0), bitmap: [0, 0, 0] },
};

const isAlpenglow = ({ bank }: LocalNode): boolean => bank.options.consensus === 'alpenglow';

/**
 * Facts of a cluster of one node: it leads every slot, holds all stake and votes at once. Its identity and
 * its vote account are addresses without a key pair.
 */
export const nodeMethods: Methods = {
  getHealth: method([], [], () => 'ok'),
  getVersion: method([], [], () => ({ 'feature-set': 0, 'solana-core': LOCAL_API_VERSION })),
  getAgGenesisCert: method([], [], (node) => (isAlpenglow(node) ? GENESIS_CERTIFICATE : null)),
  getGenesisHash: method([], [], (node) => node.genesisHash),
  getIdentity: method([], [], (node) => ({ identity: node.genesisHash })),
  getClusterNodes: method([], [], (node) => [clusterNode(node)]),
  getVoteAccounts: method([], [voteAccountsConfig], (node, config) => {
    const wanted = config?.votePubkey === undefined ? null : pubkey(config.votePubkey);
    const slot = contextSlot(node, config);
    const account = voteAccount(node, slot);
    return { current: wanted === null || wanted === account.votePubkey ? [account] : [], delinquent: [] };
  }),
  getSlotLeader: method([], [contextConfig], (node, config) => {
    contextSlot(node, config);
    return node.genesisHash;
  }),
  getSlotLeaders: method([u64, u64], [], (node, start, limit) => {
    if (limit > MAX_LEADERS) throw invalidParams(`Invalid limit; max ${MAX_LEADERS}`);
    for (const slot of limit > 0 ? [small(start), small(start) + small(limit) - 1] : []) {
      const epoch = epochOf(slot);
      if (epoch > scheduledEpoch(node)) {
        throw invalidParams(`Invalid slot range: leader schedule for epoch ${epoch} is unavailable`);
      }
    }
    return Array.from({ length: small(limit) }, () => node.genesisHash);
  }),
  getLeaderSchedule: method([], [slotOrLeaderConfig, leaderConfig], (node, slotOrConfig, config) => {
    const settings = config ?? (typeof slotOrConfig === 'object' ? slotOrConfig : undefined);
    const identity = settings?.identity === undefined ? null : pubkey(settings.identity);
    const key =
      settings?.keyByVoteAccount === true && isSince(node, '4.4') ? genesisHashOf(node.genesisHash) : node.genesisHash;
    const slot = typeof slotOrConfig === 'object' || slotOrConfig === undefined ? 0 : small(slotOrConfig);
    if (epochOf(slot) > scheduledEpoch(node)) return null;
    if (identity !== null && identity !== node.genesisHash) {
      if (!isSince(node, '4.4')) return {};
      throw rpcError(RPC.notInLeaderSchedule, `Node ${identity} was not in the leader schedule for specified epoch`);
    }
    return { [key]: Array.from({ length: SLOTS_PER_EPOCH }, (_, index) => index) };
  }),
  getRankMap: changedIn(
    '4.5',
    unknownMethod,
    method([u64], [rankMapConfig], (node, slot, config) => {
      const newest = contextSlot(node, { minContextSlot: config?.minContextSlot });
      const identity = config?.identity === undefined ? null : pubkey(config.identity);
      const epoch = epochOf(small(slot));
      const isHeld = epoch <= scheduledEpoch(node) && epoch >= epochOf(newest) - RANK_MAP_EPOCHS;
      if (!isHeld) return inContext(newest, null);
      const validators = identity === null || identity === node.genesisHash ? [rankedValidator(node)] : [];
      return inContext(newest, { epoch, totalStake: STAKE_LAMPORTS, validators });
    }),
  ),
  getBlockProduction: method([], [productionConfig], (node, config) => {
    const identity = config?.identity === undefined ? null : pubkey(config.identity);
    const slot = contextSlot(node, config);
    const { firstSlot, lastSlot } = productionRange(config?.range, slot);
    const blocks = node.bank.state.blocks().filter((block) => block.slot >= firstSlot && block.slot <= lastSlot).length;
    const counted = Math.max(0, lastSlot - Math.max(firstSlot, node.bank.options.firstSlot) + 1);
    const isOther = identity !== null && identity !== node.genesisHash;
    return inContext(slot, {
      byIdentity: isOther ? {} : { [node.genesisHash]: [counted, blocks] },
      range: { firstSlot, lastSlot },
    });
  }),
  getBlockCommitment: method([u64], [], (node, slot) => {
    // Its votes are no longer counted by blocks above (Agave 4.4.0 with Alpenglow from slot 0).
    if (isAlpenglow(node)) return { commitment: null, totalStake: 0 };
    const { state } = node.bank;
    const block = state.block(small(slot));
    if (block === undefined) return { commitment: null, totalStake: STAKE_LAMPORTS };
    const votes = Math.min(LOCKOUTS, state.tip().height - block.height);
    const place = block.slot <= state.finalized().slot ? LOCKOUTS - 1 : votes - 1;
    const commitment = Array.from({ length: LOCKOUTS }, (_, index) => (index === place ? STAKE_LAMPORTS : 0));
    return { commitment, totalStake: STAKE_LAMPORTS };
  }),
  getHighestSnapshotSlot: method([], [], (node) => {
    const { state } = node.bank;
    const full = Math.floor(state.finalized().slot / SNAPSHOT_SLOTS) * SNAPSHOT_SLOTS;
    if (full < node.bank.options.firstSlot) throw rpcError(RPC.noSnapshot, 'No snapshot');
    return { full, incremental: null };
  }),
  getMaxRetransmitSlot: method([], [], () => 0),
  getMaxShredInsertSlot: method([], [], () => 0),
  getStakeMinimumDelegation: method([], [contextConfig], (node, config) =>
    inContext(contextSlot(node, config), MIN_DELEGATION_LAMPORTS),
  ),
  getInflationGovernor: method([], [commitmentConfig], () => INFLATION),
  getInflationRate: method([], [], (node) => inflationAt(epochOf(node.bank.pending.slot))),
  getInflationReward: method([list(text)], [rewardConfig], (node, addresses, config) => {
    const most = isSince(node, '4.4') ? MAX_REWARD_ADDRESSES : Number.POSITIVE_INFINITY;
    const keys = atMost(addresses, most).map((address) => pubkey(address));
    const newest = contextSlot(node, sealedOnly(config));
    const epoch = config?.epoch === undefined ? Math.max(0, epochOf(newest) - 1) : small(config.epoch);
    const first = (epoch + 1) * SLOTS_PER_EPOCH;
    if (first > newest) throw rpcError(RPC.blockNotAvailable, `Block not available for slot ${first}`);
    return keys.map(() => null);
  }),
  getEpochSchedule: method([], [], () => ({
    firstNormalEpoch: 0,
    firstNormalSlot: 0,
    leaderScheduleSlotOffset: SLOTS_PER_EPOCH,
    slotsPerEpoch: SLOTS_PER_EPOCH,
    warmup: false,
  })),
  getEpochInfo: method([], [contextConfig], (node, config) => {
    const { slot, height } = bankOf(node, config);
    return {
      absoluteSlot: slot,
      blockHeight: height,
      epoch: epochOf(slot),
      slotIndex: slot % SLOTS_PER_EPOCH,
      slotsInEpoch: SLOTS_PER_EPOCH,
      transactionCount: transactionsUntil(node, slot),
    };
  }),
  getBlockHeight: method([], [contextConfig], (node, config) => bankOf(node, config).height),
  getSlot: method([], [contextConfig], (node, config) => contextSlot(node, config)),
  getTransactionCount: method([], [contextConfig], (node, config) =>
    transactionsUntil(node, contextSlot(node, config)),
  ),
  getRecentPerformanceSamples: method([], [usize], (node, limit = MAX_SAMPLES) => {
    if (limit > MAX_SAMPLES) throw invalidParams(`Invalid limit; max ${MAX_SAMPLES}`);
    return samples(node.bank.state.blocks()).slice(0, small(limit));
  }),
};

function epochOf(slot: number): number {
  return Math.floor(slot / SLOTS_PER_EPOCH);
}

/** The newest epoch with known leaders: the one after the current. */
function scheduledEpoch(node: LocalNode): number {
  return epochOf(node.bank.pending.slot) + 1;
}

/** A local chain has one address for everything; services that it lacks are null. */
function clusterNode(node: LocalNode) {
  return {
    clientId: 'Agave',
    featureSet: 0,
    gossip: null,
    pubkey: node.genesisHash,
    pubsub: null,
    rpc: null,
    serveRepair: null,
    shredVersion: 0,
    tpu: null,
    tpuForwards: null,
    tpuForwardsQuic: null,
    tpuQuic: null,
    ...(isSince(node, '4.5') ? {} : { tpuVote: null }),
    tvu: null,
    version: LOCAL_API_VERSION,
  };
}

function rankedValidator(node: LocalNode) {
  return {
    rank: 0,
    votePubkey: genesisHashOf(node.genesisHash),
    nodePubkey: node.genesisHash,
    blsPubkeyCompressed: BLS_KEY,
    stake: STAKE_LAMPORTS,
  };
}

function voteAccount(node: LocalNode, slot: number) {
  const { state } = node.bank;
  return {
    activatedStake: STAKE_LAMPORTS,
    commission: 0,
    epochCredits: [[epochOf(slot), state.tip().height, 0]],
    epochVoteAccount: true,
    inflationRewardsCommissionBps: 0,
    lastVote: state.tip().slot,
    nodePubkey: node.genesisHash,
    rootSlot: state.finalized().slot,
    votePubkey: genesisHashOf(node.genesisHash),
  };
}

function productionRange(range: { firstSlot: Unsigned; lastSlot: Unsigned | undefined } | undefined, newest: number) {
  const firstSlot = range === undefined ? epochOf(newest) * SLOTS_PER_EPOCH : range.firstSlot;
  const lastSlot = range?.lastSlot ?? newest;
  if (lastSlot > newest) throw invalidParams(`lastSlot, ${lastSlot}, is too large; max ${newest}`);
  if (lastSlot < firstSlot) {
    throw invalidParams(`lastSlot, ${lastSlot}, cannot be less than firstSlot, ${firstSlot}`);
  }
  return { firstSlot: small(firstSlot), lastSlot: small(lastSlot) };
}

function inflationAt(epoch: number) {
  const year = (epoch * SLOTS_PER_EPOCH) / SLOTS_PER_YEAR;
  const total = Math.max(INFLATION.terminal, INFLATION.initial * (1 - INFLATION.taper) ** year);
  const foundation = year < INFLATION.foundationTerm ? total * INFLATION.foundation : 0;
  return { epoch, foundation, total, validator: total - foundation };
}

/** Transactions from the genesis to the end of `slot`. */
function transactionsUntil(node: LocalNode, slot: number): number {
  const { pending, state } = node.bank;
  const later = state.blocks().findLastIndex((block) => block.slot <= slot) + 1;
  const above = state
    .blocks()
    .slice(later)
    .reduce((sum, block) => sum + block.records.length, 0);
  return state.transactionCount() - above - (slot < pending.slot ? pending.records.length : 0);
}

/** One sample per minute of chain time, newest first, as far as blocks are kept. */
function samples(blocks: readonly LedgerBlock[]) {
  const found: { slot: number; numTransactions: number; numNonVoteTransactions: number; numSlots: number }[] = [];
  let from = 0;
  blocks.forEach((block, index) => {
    const first = blocks[from]!;
    if (block.time - first.time < SAMPLE_SECONDS) return;
    const transactions = blocks.slice(from, index).reduce((sum, each) => sum + each.records.length, 0);
    found.push({
      slot: blocks[index - 1]!.slot,
      numTransactions: transactions,
      numNonVoteTransactions: transactions,
      numSlots: block.slot - first.slot,
    });
    from = index;
  });
  return found.reverse().map((sample) => ({ ...sample, samplePeriodSecs: SAMPLE_SECONDS }));
}
