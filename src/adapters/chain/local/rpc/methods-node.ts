import { API_VERSION, contextSlot, inContext, type Methods } from './node.ts';
import { configAt, listAt } from './params.ts';

const SLOTS_PER_EPOCH = 432_000;
const SUPPLY_LAMPORTS = 5_000_000_000_000_000;

/** What a node says about itself. Stake, leaders and inflation are constants: the simulator has no validators. */
export const nodeMethods: Methods = {
  getHealth: () => 'ok',
  getVersion: () => ({ 'solana-core': API_VERSION, 'feature-set': 0 }),
  getGenesisHash: (node) => node.genesisHash,
  getIdentity: (node) => ({ identity: node.genesisHash }),
  getClusterNodes: () => [],
  getVoteAccounts: () => ({ current: [], delinquent: [] }),
  getSlotLeader: (node) => node.genesisHash,
  getEpochSchedule: () => ({
    slotsPerEpoch: SLOTS_PER_EPOCH,
    leaderScheduleSlotOffset: SLOTS_PER_EPOCH,
    warmup: false,
    firstNormalEpoch: 0,
    firstNormalSlot: 0,
  }),
  getEpochInfo(node, params) {
    const absoluteSlot = contextSlot(node, configAt(params, 0));
    return {
      absoluteSlot,
      blockHeight: heightAt(node, absoluteSlot),
      epoch: Math.floor(absoluteSlot / SLOTS_PER_EPOCH),
      slotIndex: absoluteSlot % SLOTS_PER_EPOCH,
      slotsInEpoch: SLOTS_PER_EPOCH,
      transactionCount: node.bank.state.transactionCount(),
    };
  },
  getBlockHeight: (node, params) => heightAt(node, contextSlot(node, configAt(params, 0))),
  getSlot: (node, params) => contextSlot(node, configAt(params, 0)),
  getTransactionCount(node, params) {
    contextSlot(node, configAt(params, 0));
    return node.bank.state.transactionCount();
  },
  getRecentPerformanceSamples: () => [],
  getInflationReward: (_node, params) => listAt(params, 0, 1000).map(() => null),
  getSupply: (node, params) =>
    inContext(contextSlot(node, configAt(params, 0)), {
      total: SUPPLY_LAMPORTS,
      circulating: SUPPLY_LAMPORTS,
      nonCirculating: 0,
      nonCirculatingAccounts: [],
    }),
};

type Node = Parameters<(typeof nodeMethods)[string]>[0];

function heightAt(node: Node, slot: number): number {
  const { state } = node.bank;
  return state.block(slot)?.height ?? state.tip().height + 1;
}
