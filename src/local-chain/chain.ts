import { randomBytes } from 'node:crypto';
import { createFaucet } from './faucet.ts';
import { type Bank, createBank, type Submission, seal, submit } from './ledger/bank.ts';
import { createChainTime } from './ledger/chain-time.ts';
import { faucetKeypair, genesisHashOf } from './ledger/hashes.ts';
import { findLightAssets, loadLightAssets } from './light-assets.ts';
import { DEFAULTS, type LocalChainOptions } from './options.ts';
import type { LocalNode } from './rpc/node.ts';
import type { DecodedTransaction } from './vm/transaction.ts';
import { createVm, MAX_RENT_EPOCH } from './vm/vm.ts';

/** Exact as a JSON number, so that plain clients read the faucet's balance right. */
const FAUCET_LAMPORTS = 5_000_000_000_000_000n;

export interface Chain {
  readonly node: LocalNode;
  readonly bank: Bank;
  readonly time: ReturnType<typeof createChainTime>;
  /** No slot timer: each transaction makes its block. */
  readonly sealsEach: boolean;
  /** Whether the Light programs are there. */
  readonly hasLight: boolean;
}

/** The chain itself, without any socket: engine, genesis, ledger and faucet. */
export async function createChain(options: LocalChainOptions): Promise<Chain> {
  const vm = await createVm();
  const assets = findLightAssets(options.lightAssets);
  if (assets !== null) loadLightAssets(vm, assets);
  const keypair = faucetKeypair();
  vm.write(keypair.publicKey.toBytes(), {
    lamports: FAUCET_LAMPORTS,
    data: new Uint8Array(0),
    ownerBytes: new Uint8Array(32),
    executable: false,
    rentEpoch: MAX_RENT_EPOCH,
  });
  const genesisHash = genesisHashOf(options.seed ?? randomBytes(16).toString('hex'));
  const time = createChainTime(options.time ?? { kind: 'wall' }, Date.now);
  const { finalityDepth, firstSlot, maxBlocks, slotMs } = { ...DEFAULTS, ...options };
  const bank = createBank({ vm, time, genesisHash, firstSlot, finalityDepth, maxBlocks });
  function submitAndSeal(transaction: DecodedTransaction): Submission {
    const result = submit(bank, transaction);
    if (result.landed && slotMs === 0) seal(bank);
    return result;
  }
  const recentBlockhash = () => bank.state.tip().blockhash;
  const airdrop = createFaucet({ keypair, recentBlockhash, submit: submitAndSeal });
  return {
    node: { bank, genesisHash, sealsEach: slotMs === 0, submit: submitAndSeal, airdrop },
    bank,
    time,
    sealsEach: slotMs === 0,
    hasLight: assets !== null,
  };
}
