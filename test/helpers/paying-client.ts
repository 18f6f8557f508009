/** The official client of payments of single calls, on a local chain: a wallet with dollars, and requests that pay. */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  createAssociatedTokenAccountIdempotentInstruction,
  createMintToInstruction,
  createTransferInstruction,
  getAssociatedTokenAddressSync,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, PublicKey, Transaction, type TransactionInstruction } from '@solana/web3.js';
import { USDC_DEVNET_MINT } from '../../src/solana/programs.ts';
import type { TestChain } from './chain.ts';
import { packageAbsent } from './packages.ts';
import { findProjectRoot } from './project-root.ts';
import { until } from './until.ts';
import { writeMint } from './write-mint.ts';

/** A daemon whose data lies below finds the package that it needs. */
export const X402_DIR = join(findProjectRoot(), 'test/helpers/x402/');
const require = createRequire(join(X402_DIR, 'package.json'));

const CLIENT = '@x402/fetch';

/** Why payments cannot be made here, or false. */
export function clientMissing(): string | false {
  try {
    require.resolve(CLIENT);
    return false;
  } catch {
    return packageAbsent('payments of single calls', [CLIENT]);
  }
}

type Fetch = typeof fetch;
interface Client {
  register(network: string, scheme: object): unknown;
  registerV1(network: string, scheme: object): unknown;
  setSpendControls(controls: false): void;
  createPaymentPayload(required: unknown): Promise<Record<string, unknown>>;
}
interface FetchPackage {
  readonly wrapFetchWithPayment: (send: Fetch, client: Client) => Fetch;
  readonly x402Client: new () => Client;
}
interface SvmPackage {
  readonly ExactSvmScheme: new (signer: unknown, config: { readonly rpcUrl: string }) => object;
}
interface KitPackage {
  readonly createKeyPairSignerFromBytes: (bytes: Uint8Array) => Promise<unknown>;
}

const load = async <T>(name: string): Promise<T> => (await import(pathToFileURL(require.resolve(name)).href)) as T;

export const DOLLAR = 1_000_000;
const DECIMALS = 6;

/** A chain with the dollars that the clients know there; the wallet may mint, and has lamports. */
export async function mintDollars(chain: TestChain): Promise<Keypair> {
  const issuer = Keypair.generate();
  await chain.fund(issuer.publicKey.toBase58(), LAMPORTS_PER_SOL);
  await chain.setAccount(USDC_DEVNET_MINT, mintAccount(issuer));
  return issuer;
}

export const readKeypair = (path: string): Keypair =>
  Keypair.fromSecretKey(Uint8Array.from(JSON.parse(readFileSync(path, 'utf8')) as number[]));

/** Writes a keypair as solana-keygen does. */
export function writeKeypair(path: string, { secretKey }: Keypair): string {
  writeFileSync(path, JSON.stringify([...secretKey]), { mode: 0o600 });
  return path;
}

type Place = Pick<TestChain, 'connection' | 'rpcUrl'>;

/** Signed by `payer` and `signer`. */
export async function landed(
  chain: Pick<Place, 'connection'>,
  payer: Keypair,
  instructions: readonly TransactionInstruction[],
  signer: Keypair = payer,
): Promise<void> {
  const { blockhash, lastValidBlockHeight } = await chain.connection.getLatestBlockhash();
  const transaction = new Transaction({ feePayer: payer.publicKey, blockhash, lastValidBlockHeight });
  transaction.add(...instructions).sign(payer, ...(signer === payer ? [] : [signer]));
  const signature = await chain.connection.sendRawTransaction(transaction.serialize());
  // Payments are simulated at `confirmed`.
  await until(async () => {
    const { value } = await chain.connection.getSignatureStatus(signature);
    return value !== null && value.confirmationStatus !== 'processed';
  });
}

/** Takes all dollars of a wallet away. */
export const emptied = (wallet: Keypair, to: Keypair): TransactionInstruction[] => {
  const mint = new PublicKey(USDC_DEVNET_MINT);
  const [from, into] = [wallet, to].map(({ publicKey }) => getAssociatedTokenAddressSync(mint, publicKey));
  return [
    createAssociatedTokenAccountIdempotentInstruction(to.publicKey, into as PublicKey, to.publicKey, mint),
    createTransferInstruction(from as PublicKey, into as PublicKey, wallet.publicKey, DOLLAR),
  ];
};

/** Gives a new wallet dollars that `issuer` mints. */
export async function walletWith(chain: Pick<Place, 'connection'>, issuer: Keypair, amount: number): Promise<Keypair> {
  const wallet = Keypair.generate();
  await give(chain, issuer, { mint: new PublicKey(USDC_DEVNET_MINT), to: wallet.publicKey, amount });
  return wallet;
}

/** A mint that nobody asks for, of which the wallet has some; the seller has an account for it. */
export async function otherDollars(chain: TestChain, issuer: Keypair, wallet: Keypair, seller: PublicKey) {
  const mint = Keypair.generate().publicKey;
  await chain.setAccount(mint.toBase58(), mintAccount(issuer));
  await give(chain, issuer, { mint, to: wallet.publicKey, amount: DOLLAR });
  await give(chain, issuer, { mint, to: seller, amount: 1 });
  return mint.toBase58();
}

/** Lets a wallet be paid in dollars. */
export const openAccountOf = async (chain: TestChain, issuer: Keypair, owner: PublicKey): Promise<void> =>
  await give(chain, issuer, { mint: new PublicKey(USDC_DEVNET_MINT), to: owner, amount: 1 });

interface Gift {
  readonly mint: PublicKey;
  readonly to: PublicKey;
  readonly amount: number;
}

async function give(chain: Pick<Place, 'connection'>, issuer: Keypair, { mint, to, amount }: Gift): Promise<void> {
  const account = getAssociatedTokenAddressSync(mint, to);
  await landed(chain, issuer, [
    createAssociatedTokenAccountIdempotentInstruction(issuer.publicKey, account, to, mint),
    createMintToInstruction(mint, account, issuer.publicKey, amount),
  ]);
}

const mintAccount = (issuer: Keypair) => ({
  lamports: LAMPORTS_PER_SOL,
  owner: TOKEN_PROGRAM_ID.toBase58(),
  data: writeMint({ mintAuthority: issuer.publicKey.toBase58(), supply: 0n, decimals: DECIMALS }),
});

/** Requests of the official client, and the payments that it would make. */
export async function payingClient(chain: Pick<Place, 'rpcUrl'>, wallet: Keypair) {
  const [{ wrapFetchWithPayment, x402Client }, kit, two, one] = await Promise.all([
    load<FetchPackage>(CLIENT),
    load<KitPackage>('@solana/kit'),
    load<SvmPackage>('@x402/svm/exact/client'),
    load<{ readonly ExactSvmSchemeV1: SvmPackage['ExactSvmScheme'] }>('@x402/svm/exact/v1/client'),
  ]);
  const signer = await kit.createKeyPairSignerFromBytes(wallet.secretKey);
  const config = { rpcUrl: chain.rpcUrl };
  const clientOf = (isLimited: boolean): Client => {
    const client = new x402Client();
    client.register('solana:*', new two.ExactSvmScheme(signer, config));
    client.registerV1('solana-devnet', new one.ExactSvmSchemeV1(signer, config));
    if (!isLimited) client.setSpendControls(false);
    return client;
  };
  const client = clientOf(true);
  return {
    signer,
    fetch: (send: Fetch = fetch): Fetch => wrapFetchWithPayment(send, client),
    /** What the client would show for an offer. */
    pay: (required: unknown) => client.createPaymentPayload(required),
    /** Likewise, in any mint. */
    payAnything: (required: unknown) => clientOf(false).createPaymentPayload(required),
  };
}
