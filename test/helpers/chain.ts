import { Connection } from '@solana/web3.js';
import {
  type ChainHooks,
  type LocalChainHandle,
  type LocalChainOptions,
  startLocalChain,
} from '../../packages/local-chain/index.ts';
import { bankSlotOf, type LocalNode } from '../../packages/local-chain/rpc/method.ts';
import { loadNative } from '../../packages/local-chain/vm/vm.ts';
import { messageOf } from '../../src/lib/coded-error.ts';
import type { Faults } from './chain-fault-rules.ts';
import { faultHooks } from './chain-faults.ts';
import { until } from './until.ts';

export interface TestChain extends LocalChainHandle {
  /** Rules that spoil answers and notifications. */
  readonly faults: Faults;
  /** A client for it at `confirmed`. */
  readonly connection: Connection;
}

/** Why the local chain cannot run here, or null. With REQUIRE_LITESVM=1 a reason is an error, and so is an engine of which something is missing. */
export async function chainMissing(): Promise<string | null> {
  try {
    loadNative();
    return null;
  } catch (error) {
    const reason = messageOf(error);
    // What an installed engine lacks is a fault of the code that asks it, and no reason to skip.
    if (process.env['REQUIRE_LITESVM'] === '1' || reason.includes('this release lacks')) throw new Error(reason);
    console.error(`SKIPPED: ${reason}`);
    return reason;
  }
}

/**
 * A local chain in this process: virtual time, seed `test`, one block per transaction and none by itself, any free port,
 * no Light programs unless `lightAssets` is given (null = those of the development dependency).
 * Stop it at the end of the test, after removing web3.js
 * listeners: with one left, its client dials for ever and the test process does not end.
 */
export async function startChain(options: LocalChainOptions = {}): Promise<TestChain> {
  const { hooks, faults } = faultHooks();
  const given = { seed: 'test', time: { kind: 'virtual' }, lightAssets: false, ...options } as const;
  let node: LocalNode | undefined;
  const watched: ChainHooks = {
    ...hooks,
    respond(own, methods) {
      node = own;
      return hooks.respond(own, methods);
    },
  };
  const chain = await startLocalChain(given, watched);
  const connection = new Connection(chain.rpcUrl, { commitment: 'confirmed', wsEndpoint: chain.wsUrl });
  return {
    ...chain,
    faults,
    connection,
    async fund(address, lamports) {
      const signature = await chain.fund(address, lamports);
      // On a chain with a clock, the payment waits for the timer that closes its block.
      if ((options.slotMs ?? 0) > 0) await until(() => isConfirmed(node, signature), 'the payment is in a block');
      return signature;
    },
  };
}

/** Asks the ledger itself, not its server: beds pay all the time, and under every fault. */
function isConfirmed(node: LocalNode | undefined, signature: string): boolean {
  const record = node?.bank.state.record(signature);
  if (node === undefined || record === undefined) return false;
  return node.bank.state.block(record.slot) !== undefined && record.slot <= bankSlotOf(node.bank, 'confirmed');
}
