import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import {
  type Keypair,
  PublicKey,
  SystemProgram,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { CodedError, EXIT } from '../../src/lib/coded-error.ts';
import {
  LIGHT_COMPRESSION_PROGRAM,
  LIGHT_REGISTRY_PROGRAM,
  LIGHT_SYSTEM_PROGRAM,
  LIGHT_TOKEN_PROGRAM,
  MEMO_V3_PROGRAM,
  MEMO_V4_PROGRAM,
  NOOP_PROGRAM,
} from '../../src/solana/programs.ts';
import { keyBytes } from './ledger/accounts.ts';
import {
  type Bank,
  createBank,
  createChainTime,
  faucetKeypair,
  type Release,
  type Submission,
  seal,
  submit,
  type TimeSource,
} from './ledger/bank.ts';
import { genesisHashOf } from './ledger/genesis.ts';
import { Journal, readJournal } from './ledger/journal.ts';
import type { LocalNode } from './rpc/method.ts';
import { type ChainTransaction, decodeSentTransaction } from './vm/transaction.ts';
import { createVm, MAX_RENT_EPOCH, type Vm } from './vm/vm.ts';

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
  /** Null for a chain that ends with its process. */
  readonly journal: Journal | null;
}

/** The chain without sockets: engine, genesis, ledger and faucet. */
export async function createChain(options: LocalChainOptions): Promise<Chain> {
  const vm = await createVm();
  loadMemoProgram(vm);
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
  const { consensus, firstSlot, maxBlocks, slotMs, refusesConfirmed, ...rest } = { ...DEFAULTS, ...options };
  const release = options.release ?? NEWEST_RELEASE[consensus];
  // Alpenglow makes a block final at once.
  const finalityDepth = consensus === 'alpenglow' ? 0 : rest.finalityDepth;
  const kept = options.file === undefined ? null : readJournal(options.file, { genesisHash, consensus });
  const bank = createBank({ vm, time, genesisHash, firstSlot, finalityDepth, maxBlocks, consensus, release }, kept);
  const journal = options.file === undefined ? null : new Journal(options.file, bank, kept);
  // Before all others: who hears of a block can rely on it.
  if (journal !== null) bank.listeners.add(journal.listener);
  function submitAndSeal(transaction: ChainTransaction): Submission {
    const result = submit(bank, transaction);
    if (result.landed && slotMs === 0) seal(bank);
    return result;
  }
  const recentBlockhash = () => bank.state.tip().blockhash;
  const airdrop = createFaucet({ name: 'faucet', keypair, recentBlockhash, submit: submitAndSeal });
  return {
    node: { bank, genesisHash, sealsEach: slotMs === 0, refusesConfirmed, submit: submitAndSeal, airdrop },
    bank,
    time,
    sealsEach: slotMs === 0,
    hasLight: assets !== null,
    journal,
  };
}

export interface LocalChainOptions {
  /** Fixed loopback port, or 0 for any free one (default). With a fixed one, WebSocket is also offered on port + 1. */
  readonly port?: number;
  /** Genesis seed; default random. */
  readonly seed?: string | null;
  /** File that keeps the chain: it is continued from there, and written while it runs. Without one the chain ends with its process. */
  readonly file?: string;
  /** Length of a slot; 0 (default): one block per transaction and no timer. */
  readonly slotMs?: number;
  /** How blocks become final; default `towerbft`, the only one that forks. */
  readonly consensus?: 'alpenglow' | 'towerbft';
  /** Release of Agave whose answers it gives; default: the newest one whose default is this consensus. */
  readonly release?: Release | null;
  /** Answers -32602 to calls that name `confirmed`, like nodes that will have no such commitment. Default false. */
  readonly refusesConfirmed?: boolean;
  /** Number of blocks after which TowerBFT finalizes a block. */
  readonly finalityDepth?: number;
  readonly firstSlot?: number;
  readonly maxBlocks?: number;
  /** Enable the `local_*` methods (default true). */
  readonly control?: boolean;
  /** Default wall clock. */
  readonly time?: TimeSource;
  /** Skip slots by seeded chance, 0 to 1. */
  readonly skipEvery?: { readonly rate: number; readonly seed: number };
  /** Folder with Light Protocol programs and accounts; false: none; default: the package if it is installed. */
  readonly lightAssets?: string | false | null;
  /** Called with a text when something requested is not available, such as a port. */
  readonly warn?: (text: string) => void;
}

export const DEFAULTS = {
  slotMs: 0,
  consensus: 'towerbft',
  refusesConfirmed: false,
  finalityDepth: 32,
  firstSlot: 1000,
  maxBlocks: 20_000,
} as const;

const NEWEST_RELEASE = { alpenglow: '4.5', towerbft: '4.2' } as const;

export interface FaucetOptions {
  readonly name: string;
  readonly keypair: Keypair;
  recentBlockhash(): string;
  submit(transaction: ChainTransaction): Submission;
}

/**
 * Sends real transfers, so that confirmation, history and the search for a first funder work. The counter in the memo
 * keeps two equal airdrops in one block distinct.
 */
export function createFaucet({ name, keypair, recentBlockhash, submit }: FaucetOptions) {
  let counter = 0;
  return function airdrop(address: string, lamports: bigint): string {
    counter += 1;
    const message = new TransactionMessage({
      payerKey: keypair.publicKey,
      recentBlockhash: recentBlockhash(),
      instructions: [
        SystemProgram.transfer({ fromPubkey: keypair.publicKey, toPubkey: new PublicKey(address), lamports }),
        new TransactionInstruction({
          programId: new PublicKey(MEMO_V3_PROGRAM),
          keys: [],
          data: Buffer.from(`${name} ${counter}`),
        }),
      ],
    }).compileToLegacyMessage();
    const transaction = new VersionedTransaction(message);
    transaction.sign([keypair]);
    const result = submit(decodeSentTransaction(transaction.serialize()));
    const err = result.landed ? result.record.meta.err : result.err;
    if (!result.landed || err !== null) {
      const reason = JSON.stringify(err);
      throw new CodedError('LOCAL_FAUCET', `the ${name} could not send ${lamports} lamports to ${address}: ${reason}`);
    }
    return result.record.signature;
  };
}

/**
 * Clients send memos to the fourth program by default (@solana-program/memo 0.15). litesvm 1.x has its code, but at the address of the
 * third program only; a node (Agave 4.2.1) has the same bytes at the address of the fourth.
 */
function loadMemoProgram(vm: Vm): void {
  const code = vm.account(keyBytes(MEMO_V3_PROGRAM));
  if (code !== null && vm.account(keyBytes(MEMO_V4_PROGRAM)) === null) vm.deploy(keyBytes(MEMO_V4_PROGRAM), code.data);
}

const PACKAGE = '@lightprotocol/zk-compression-cli';

interface Program {
  readonly id: string;
  readonly file: string;
  /** SHA-256 of each published build that was tested with the chain: 0.28.3, then 0.27.0. */
  readonly hashes: readonly string[];
}

const PROGRAMS: readonly Program[] = [
  {
    id: LIGHT_COMPRESSION_PROGRAM,
    file: 'account_compression.so',
    hashes: [
      '8447584bbd10f933d7af9824217de3527353e459ad25f20f1b7a8110e92bbae0',
      'd0c75613d443093c4eb47ba77baaedb45aac7ec1b178c11689c6b78d0db317e9',
    ],
  },
  {
    id: LIGHT_TOKEN_PROGRAM,
    file: 'light_compressed_token.so',
    hashes: [
      '86ceda7a2735e9fd82f3b43b34fc64c36fee2a9f67f06a2efe0ad5274b1e8d31',
      '734d9db378b10addc341831d618bfeefb1421d384498507414a6a151ed371c5e',
    ],
  },
  {
    id: LIGHT_REGISTRY_PROGRAM,
    file: 'light_registry.so',
    hashes: [
      '183fc4c7e9030b986ff1da104017718296ed2abb7cdee71aa5b4e4a0b9f8d981',
      'b3a0856dbc29c83ca6d7d156b273201056dd60cca02701dcbfad8b4fb707689c',
    ],
  },
  {
    id: LIGHT_SYSTEM_PROGRAM,
    file: 'light_system_program_pinocchio.so',
    hashes: [
      '556fba6232207afbcc26a70292c2ad7ec218db18ea1fc871e5015de6afaef34a',
      'f211127c4c1ec3f846126383042a7f205c622bbaeb5998b154660b00ae17e619',
    ],
  },
  {
    id: NOOP_PROGRAM,
    file: 'spl_noop.so',
    hashes: ['9456458d0f60e575a9dd1a47341653fecbf67debc0fdaee7c303ba9b255c971f'],
  },
];

interface AccountFile {
  readonly pubkey: string;
  readonly account: {
    readonly lamports: number;
    readonly data: readonly [string, string];
    readonly owner: string;
    readonly executable: boolean;
  };
}

/** The folder to load from: the given one, else the package beside the program, or in a checkout among those of its tests; null if there is none. */
export function findLightAssets(asked: string | false | null | undefined): string | null {
  if (asked === false) return null;
  if (typeof asked === 'string') {
    if (!existsSync(join(asked, 'bin')) || !existsSync(join(asked, 'accounts'))) {
      throw new CodedError('LOCAL_BAD_PROGRAM', `no folders bin and accounts in ${asked}`, { exitCode: EXIT.config });
    }
    return asked;
  }
  try {
    const load = createRequire(import.meta.url);
    const above = (load.resolve.paths(PACKAGE) ?? []).map((folder) => dirname(folder));
    const paths = above.flatMap((folder) => [folder, join(folder, 'test')]);
    return dirname(load.resolve(`${PACKAGE}/package.json`, { paths }));
  } catch {
    return null;
  }
}

/** Loads programs and genesis accounts into a new engine. Throws LOCAL_BAD_PROGRAM when a file is not the published one. */
function loadLightAssets(vm: Vm, folder: string): void {
  for (const { id, file, hashes } of PROGRAMS) {
    const bytes = readFileSync(join(folder, 'bin', file));
    if (!hashes.includes(createHash('sha256').update(bytes).digest('hex'))) {
      throw new CodedError('LOCAL_BAD_PROGRAM', `${file} is not a published build: its SHA-256 is unknown`);
    }
    vm.deploy(keyBytes(id), bytes);
  }
  for (const { pubkey, account } of accountFiles(join(folder, 'accounts'))) {
    vm.write(keyBytes(pubkey), {
      lamports: BigInt(account.lamports),
      data: Buffer.from(account.data[0], 'base64'),
      ownerBytes: keyBytes(account.owner),
      executable: account.executable,
      rentEpoch: 0n,
    });
  }
}

/** In the order of names: when two files contain one account, the later file is correct. */
function* accountFiles(folder: string): Generator<AccountFile> {
  for (const name of readdirSync(folder).sort()) {
    if (name.endsWith('.json')) yield JSON.parse(readFileSync(join(folder, name), 'utf8')) as AccountFile;
  }
}
