/** Where payments go, and with what: decided once per process, by the chain. */
import { join } from 'node:path';
import { type ChainReader, type Clock, CodedError } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { decodeMint, findExtension } from '../../../src/solana/accounts/token.ts';
import { associatedTokenAccount, knownKey } from '../../../src/solana/addresses.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
  USDC_DEVNET_MINT,
  USDC_MINT,
} from '../../../src/solana/programs.ts';
import type { SignupConfig } from '../config.ts';
import { type FeePayer, readFeePayer } from './fee-payer.ts';
import { DECIMALS } from './price.ts';
import { perCallRefused } from './refused.ts';

export interface Seller {
  /** CAIP-2 name. */
  readonly network: string;
  /** Name in version 1 of the protocol. */
  readonly networkOfVersion1: string;
  readonly mint: string;
  readonly treasury: string;
  readonly feePayer: FeePayer;
}

interface SellerParts {
  readonly chain: ChainReader;
  readonly config: SignupConfig;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly randomBytes: (count: number) => Uint8Array;
}

const MAINNET = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';
const TESTNET = '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z';
const DEVNET = 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1';
const CALL = { tenant: OWN_WORK } as const;
const LOCAL_KEY_FILE = 'signup-fee-payer.json';
const LOCAL_LAMPORTS = 100_000_000_000;
const LOCAL_WAIT_MS = 20_000;
const LOCAL_LOOK_MS = 50;
const MINT_LAMPORTS = 1_461_600;
const MINT_BYTES = 82;
const MIN_LAMPORTS = 10_000_000;
const CREATE_IDEMPOTENT = 1;

/** The mint in which calls are paid; null: the chain is not known yet. The official clients know a local chain as devnet only. */
export function mintOf({ perCall: { mint } }: SignupConfig, genesisHash: string | null): string | null {
  if (mint !== null || genesisHash === null) return mint;
  return genesisHash.startsWith(MAINNET) ? USDC_MINT : USDC_DEVNET_MINT;
}

/** Whom calls are paid to. On the local chain the fee payer, if nobody is named. Errors: SIGNUP_PER_CALL. */
export async function readTreasury(parts: SellerParts): Promise<string> {
  const { config } = parts;
  const isLocal = parts.chain.status().kind === 'local';
  const treasury = config.treasury ?? (isLocal ? (await readOwn(parts)).address : null);
  if (treasury === null) throw perCallRefused('signup.treasury has to be an address');
  return treasury;
}

async function readOwn({ chain, config, dataDir, randomBytes }: SellerParts): Promise<FeePayer> {
  const { feePayerFile } = config.perCall;
  if (feePayerFile === null && chain.status().kind !== 'local')
    throw perCallRefused('signup.perCall.feePayerFile has to name a keypair');
  return await readFeePayer(feePayerFile ?? join(dataDir, LOCAL_KEY_FILE), feePayerFile === null ? randomBytes : null);
}

/** Errors: SIGNUP_PER_CALL for what cannot be used on this chain, and those of the chain. */
export async function findSeller(parts: SellerParts): Promise<Seller> {
  const { chain, config } = parts;
  const { kind, genesisHash } = chain.status();
  const genesis = genesisHash ?? (await chain.call<string>('getGenesisHash', [], CALL));
  const isLocal = kind === 'local';
  const [feePayer, treasury] = [await readOwn(parts), await readTreasury(parts)];
  const mint = mintOf(config, genesis) as string;
  if (isLocal) await prepareLocal(parts, mint, feePayer.address);
  const program = await checkMint(chain, mint);
  await openAccount(chain, { feePayer, treasury, mint, program });
  const name = [MAINNET, TESTNET].find((one) => genesis.startsWith(one)) ?? DEVNET;
  const networkOfVersion1 = { [MAINNET]: 'solana', [TESTNET]: 'solana-testnet' }[name] ?? 'solana-devnet';
  return { network: `solana:${name}`, networkOfVersion1, mint, treasury, feePayer };
}

interface AccountValue {
  readonly owner: string;
  readonly data: readonly [string, string];
}

async function readAccount(chain: ChainReader, address: string): Promise<AccountValue | null> {
  const options = { encoding: 'base64', commitment: 'confirmed' };
  const { value } = await chain.call<{ value: AccountValue | null }>('getAccountInfo', [address, options], CALL);
  return value;
}

/** Returns the token program of the mint. */
async function checkMint(chain: ChainReader, mint: string): Promise<string> {
  const account = await readAccount(chain, mint);
  const data = Buffer.from(account?.data[0] ?? '', 'base64');
  const { value } = decodeMint({ owner: account?.owner ?? '', data });
  if (value === null) throw perCallRefused(`${mint} is no mint on this chain`);
  if (value.decimals !== DECIMALS)
    throw perCallRefused(`${mint} has ${value.decimals} decimals; calls are paid in dollars of ${DECIMALS}`);
  if (findExtension(value.extensions, 'TransferFeeConfig') !== null)
    throw perCallRefused(`${mint} takes a fee of transfers: less would arrive than is paid`);
  return value.program;
}

/** On the local chain: the dollars that the official clients know there, and lamports for fees. The fee payer may mint. */
async function prepareLocal({ chain, clock }: SellerParts, mint: string, owner: string): Promise<void> {
  const hasLamports = async () => {
    const { value } = await chain.call<{ value: number }>('getBalance', [owner, { commitment: 'confirmed' }], CALL);
    return value >= MIN_LAMPORTS;
  };
  if (!(await hasLamports())) {
    await chain.call('requestAirdrop', [owner, LOCAL_LAMPORTS], CALL);
    await waitUntil(clock, hasLamports);
  }
  const hasMint = async () => (await readAccount(chain, mint)) !== null;
  if (await hasMint()) return;
  const data = Buffer.alloc(MINT_BYTES);
  data.writeUInt32LE(1, 0);
  data.set(knownKey(owner), 4);
  data.writeUInt8(DECIMALS, 44);
  data.writeUInt8(1, 45);
  const account = { lamports: MINT_LAMPORTS, owner: TOKEN_PROGRAM, data: [data.toString('base64'), 'base64'] };
  await chain.call('local_setAccount', [mint, account], CALL);
  await waitUntil(clock, hasMint);
}

/** What was sent to the local chain shows at `confirmed` some slots later. Returns after `LOCAL_WAIT_MS` in any case: what follows says what is missing. */
async function waitUntil(clock: Clock, isSo: () => Promise<boolean>): Promise<void> {
  for (const endMs = clock.monotonic() + LOCAL_WAIT_MS; clock.monotonic() < endMs; await clock.sleep(LOCAL_LOOK_MS))
    if (await isSo()) return;
}

interface TokenPlace {
  readonly feePayer: FeePayer;
  readonly treasury: string;
  readonly mint: string;
  readonly program: string;
}

/** Clients pay to the associated account of the treasury and do not create it. */
async function openAccount(chain: ChainReader, { feePayer, treasury, mint, program }: TokenPlace): Promise<void> {
  const address = associatedTokenAccount(treasury, mint, program);
  if ((await readAccount(chain, address)) !== null) return;
  const { value } = await chain.call<{ value: { blockhash: string } }>(
    'getLatestBlockhash',
    [{ commitment: 'confirmed' }],
    CALL,
  );
  // Signer and account are written; the others are read: mint, treasury unless it is the signer, and programs.
  const written = [feePayer.address, address];
  const read = [treasury, mint, SYSTEM_PROGRAM, program, ASSOCIATED_TOKEN_PROGRAM].filter(
    (key) => !written.includes(key),
  );
  const keys = [...written, ...read];
  const accounts = [feePayer.address, address, treasury, mint, SYSTEM_PROGRAM, program].map((key) => keys.indexOf(key));
  const message = Buffer.concat([
    Uint8Array.of(1, 0, read.length, keys.length),
    ...keys.map(knownKey),
    knownKey(value.blockhash),
    Uint8Array.of(1, keys.indexOf(ASSOCIATED_TOKEN_PROGRAM), accounts.length, ...accounts, 1, CREATE_IDEMPOTENT),
  ]);
  const text = Buffer.concat([Uint8Array.of(1), feePayer.sign(message), message]).toString('base64');
  try {
    await chain.call('sendTransaction', [text, { encoding: 'base64', preflightCommitment: 'confirmed' }], CALL);
  } catch (error) {
    // What the node says of it, without its address.
    if (error instanceof CodedError && error.code === 'CHAIN_RPC_ERROR')
      throw perCallRefused(
        `the account of the treasury for ${mint} cannot be opened: has ${feePayer.address} lamports?`,
      );
    throw error;
  }
}
