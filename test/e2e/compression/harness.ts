/** A chain with the Light programs, a daemon that follows it, and the client library pointed at both. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { createRpc, type Rpc, TreeType } from '@lightprotocol/stateless.js';
import { Keypair, LAMPORTS_PER_SOL, type PublicKey } from '@solana/web3.js';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type StartDaemonOptions, startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { createRootCheck, type RootCheck, type V1Proof } from '../../helpers/light/v1-roots.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { pauseAfter } from '../../helpers/until.ts';

const FIRST_SLOT = 1_000;
const WALLETS = 4;
const LEAST_PAUSE_MS = 10;

export const SEED = Number(process.env['PARHELION_SEED'] ?? 20_261_121);

export interface LightBed {
  readonly chain: TestChain;
  readonly daemon: TestDaemon;
  /** The chain for transactions, the daemon as indexer. */
  readonly rpc: Rpc;
  readonly random: Sfc32;
  readonly wallets: readonly Keypair[];
  readonly owners: readonly PublicKey[];
  newKey(): Keypair;
  /** A method of the daemon without a client between: the result as it is on the wire. */
  call<T = unknown>(method: string, params: unknown): Promise<T>;
  /** Waits until the daemon is where the chain is. */
  caughtUp(): Promise<void>;
  /** The newest proof of a leaf of a V1 tree agrees with the tree's account. */
  checkRoot: RootCheck;
}

export interface LightBedOptions extends Pick<StartDaemonOptions, 'config' | 'store'> {
  readonly lightAssets?: string | null;
  readonly seed?: number;
}

export const followAll = { follow: { startSlot: FIRST_SLOT, pollMs: 20, auditIntervalMs: 250, enabled: true } };

export async function startLightBed(t: TestContext, options: LightBedOptions = {}): Promise<LightBed> {
  const random = createSfc32(options.seed ?? SEED);
  const newKey = () => Keypair.fromSeed(random.fill(new Uint8Array(32)));
  const chain = await startChain({ lightAssets: options.lightAssets ?? null });
  t.after(() => chain.stop());
  const wallets = Array.from({ length: WALLETS }, newKey);
  for (const { publicKey } of wallets) await chain.fund(publicKey.toBase58(), 1_000 * LAMPORTS_PER_SOL);
  const daemon = await startDaemon({
    chain,
    config: { ...followAll, ...options.config },
    ...(options.store === undefined ? {} : { store: options.store }),
  });
  t.after(() => daemon.stop());
  const url = `${daemon.apiUrl}/?api-key=${daemon.key}`;
  const rpc = createRpc(chain.rpcUrl, url, url, { commitment: 'confirmed', wsEndpoint: chain.wsUrl });
  await isCaughtUp(chain, rpc);
  return {
    chain,
    daemon,
    rpc,
    random,
    wallets,
    newKey,
    owners: wallets.map(({ publicKey }) => publicKey),
    call: createCall(url),
    caughtUp: () => isCaughtUp(chain, rpc),
    checkRoot: await createRootCheck(chain.connection),
  };
}

/** JSON-RPC over HTTP. Throws with the answer where it is an error. */
export function createCall(url: string) {
  return async <T>(method: string, params: unknown): Promise<T> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 'one', method, params });
    const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    const answer = (await response.json()) as { result?: T; error?: unknown };
    assert.ok(answer.result !== undefined, `${method}: ${JSON.stringify(answer)}`);
    return answer.result;
  };
}

async function isCaughtUp(chain: TestChain, rpc: Rpc): Promise<void> {
  const slot = await chain.connection.getSlot('confirmed');
  // An error before the first block.
  const indexed = () => rpc.getIndexerSlot().catch(() => 0);
  for (let tries = 0; tries < 3_000; tries += 1) {
    const beganMs = performance.now();
    if ((await indexed()) >= slot) return;
    await pauseAfter(performance.now() - beganMs, LEAST_PAUSE_MS);
  }
  assert.fail(`the daemon stands at ${await indexed()}, the chain at ${slot}`);
}

/** Leaves that a transaction created in V1 trees, according to the daemon. */
export async function v1LeavesOf({ call }: Pick<LightBed, 'call'>, signature: string) {
  type Context = { readonly tree: string; readonly treeType: number };
  type Opened = { readonly account: { readonly hash: string; readonly merkleContext: Context } };
  const { compressionInfo } = await call<{ compressionInfo: { openedAccounts: readonly Opened[] } }>(
    'getTransactionWithCompressionInfoV2',
    { signature },
  );
  return compressionInfo.openedAccounts
    .filter(({ account }) => account.merkleContext.treeType === TreeType.StateV1)
    .map(({ account }) => ({ hash: account.hash, tree: account.merkleContext.tree }));
}

/** The daemon's proof of a leaf is of the newest root, and that is the tree account's. */
export async function proveLeaf(bed: Pick<LightBed, 'call' | 'checkRoot'>, hash: string): Promise<V1Proof> {
  const { value } = await bed.call<{ value: V1Proof }>('getCompressedAccountProof', { hash });
  assert.equal(value.hash, hash);
  await bed.checkRoot(value);
  return value;
}
