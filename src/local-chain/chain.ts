import { randomBytes } from 'node:crypto';
import {
  type Keypair,
  PublicKey,
  SystemProgram,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { CodedError } from '../lib/coded-error.ts';
import {
  type Bank,
  createBank,
  createChainTime,
  faucetKeypair,
  genesisHashOf,
  type Submission,
  seal,
  submit,
  type TimeSource,
} from './ledger/bank.ts';
import { findLightAssets, loadLightAssets } from './light-assets.ts';
import type { LocalNode } from './rpc/method.ts';
import { type DecodedTransaction, decodeTransaction } from './vm/transaction.ts';
import { createVm, MAX_RENT_EPOCH } from './vm/vm.ts';

/** Exact as a JSON number, so that simple clients read the faucet's balance correctly. */
const FAUCET_LAMPORTS = 5_000_000_000_000_000n;

export interface Chain {
  readonly node: LocalNode;
  readonly bank: Bank;
  readonly time: ReturnType<typeof createChainTime>;
  /** No slot timer: each transaction makes its block. */
  readonly sealsEach: boolean;
  /** Whether the Light programs are loaded. */
  readonly hasLight: boolean;
}

/** The chain without sockets: engine, genesis, ledger and faucet. */
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

export interface LocalChainOptions {
  /** Fixed loopback port, or 0 for any free one (default). With a fixed one, WebSocket is also offered on port + 1. */
  readonly port?: number;
  /** Genesis seed; default random. */
  readonly seed?: string | null;
  /** Length of a slot; 0 (default): one block per transaction and no timer. */
  readonly slotMs?: number;
  readonly finalityDepth?: number;
  readonly firstSlot?: number;
  readonly maxBlocks?: number;
  /** Enable the `local_*` methods (default true). */
  readonly control?: boolean;
  /** Default wall clock. */
  readonly time?: TimeSource;
  /** Skip slots by seeded chance, 0 to 1. */
  readonly skipEvery?: { readonly rate: number; readonly seed: number };
  /** Folder with Light Protocol programs and accounts; false: none; default: the development dependency if it is installed. */
  readonly lightAssets?: string | false | null;
  /** Called with a text when something requested is not available, such as a port. */
  readonly warn?: (text: string) => void;
}

export const DEFAULTS = { slotMs: 0, finalityDepth: 32, firstSlot: 1000, maxBlocks: 20_000 } as const;

const MEMO_PROGRAM = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';

export interface FaucetOptions {
  readonly keypair: Keypair;
  recentBlockhash(): string;
  submit(transaction: DecodedTransaction): Submission;
}

/**
 * Sends real transfers, so that confirmation, history and the search for a first funder work. The counter in the memo
 * keeps two equal airdrops in one block distinct.
 */
function createFaucet({ keypair, recentBlockhash, submit }: FaucetOptions) {
  let counter = 0;
  return function airdrop(address: string, lamports: bigint): string {
    counter += 1;
    const message = new TransactionMessage({
      payerKey: keypair.publicKey,
      recentBlockhash: recentBlockhash(),
      instructions: [
        SystemProgram.transfer({ fromPubkey: keypair.publicKey, toPubkey: new PublicKey(address), lamports }),
        new TransactionInstruction({
          programId: new PublicKey(MEMO_PROGRAM),
          keys: [],
          data: Buffer.from(`faucet ${counter}`),
        }),
      ],
    }).compileToLegacyMessage();
    const transaction = new VersionedTransaction(message);
    transaction.sign([keypair]);
    const result = submit(decodeTransaction(transaction.serialize()));
    if (!result.landed || result.record.meta.err !== null) {
      throw new CodedError('LOCAL_FAUCET', `the faucet could not send ${lamports} lamports to ${address}`);
    }
    return result.record.signature;
  };
}
