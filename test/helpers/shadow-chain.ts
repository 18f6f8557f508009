/** Chains with something of every product: wallets with a history, tokens, digital assets, and compressed accounts and tokens. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LightSystemProgram, Rpc } from '@lightprotocol/stateless.js';
import { type Connection, Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { startAgave, untilConfirmed } from './agave.ts';
import { startChain } from './chain.ts';
import { createWorld, type World } from './das-world.ts';
import { landingRpc, send } from './light/sender.ts';
import { createTokenMint, mintTo } from './light/token-mint.ts';
import { createStateTrees } from './light/trees.ts';
import { createSfc32 } from './sfc32.ts';
import { createEconomy, type Economy, type EconomyChain } from './wallet-economy.ts';

export interface ShadowChain extends EconomyChain {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  /** Digital assets, which are on the chain from the start. */
  readonly assets: World;
  /** Resolves when everything that is confirmed now is final. */
  settle(): Promise<void>;
  stop(): Promise<void>;
}

/** What is on the chain, beside its digital assets. */
export interface ShadowFacts {
  readonly economy: Economy;
  /** Owners of compressed lamports and tokens. */
  readonly compressed: readonly string[];
  readonly compressedMint: string;
  /** Whose leaves are proved by their path; those of the other tree are in its queue. */
  readonly provedTree: string;
}

const SEED = 49;
const BLOCKS = 12;
/** More than the blocks until one is final. */
const FINAL_BLOCKS = 40;
const DONE_PACE_MS = 100;

export async function startLocalShadowChain(): Promise<ShadowChain> {
  const chain = await startChain({ lightAssets: null });
  return {
    ...chain,
    assets: await createWorld(chain),
    settle: async () => void (await chain.seal(FINAL_BLOCKS)),
  };
}

/** A real node. The accounts of the digital assets are part of its genesis. */
export async function startAgaveShadowChain(): Promise<ShadowChain> {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-accounts-'));
  const assets = await createWorld({
    connection: undefined as unknown as Connection,
    fund: async () => '',
    async setAccount(address, account) {
      if (account === null) throw new Error('an account that is not there is no part of a genesis');
      const { lamports, owner, data } = account;
      writeFileSync(
        join(folder, `${address}.json`),
        JSON.stringify({
          pubkey: address,
          account: {
            lamports: Number(lamports),
            data: [Buffer.from(data).toString('base64'), 'base64'],
            owner,
            executable: false,
            rentEpoch: 0,
            space: data.length,
          },
        }),
      );
    },
  });
  const node = await startAgave({ light: true, accounts: folder });
  return {
    rpcUrl: node.rpcUrl,
    wsUrl: node.wsUrl,
    connection: node.connection,
    assets,
    fund: async (address, lamports) => (await node.fund([address], Number(lamports)))[0]!,
    async submitAll(transactions) {
      const sent = transactions.map((bytes) => ({
        bytes,
        send: () => node.connection.sendRawTransaction(bytes, { skipPreflight: true }),
      }));
      for (const { send: again } of sent) await untilConfirmed(node.call, await again(), again);
    },
    async settle() {
      const confirmed = await node.call<number>('getSlot', [{ commitment: 'confirmed' }]);
      while ((await node.call<number>('getSlot', [{ commitment: 'finalized' }])) < confirmed) await sleep(DONE_PACE_MS);
    },
    async stop() {
      await node.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Fills the chain; the compressed part by the client library, which needs an indexer that follows the chain: a daemon. */
export async function fillShadowChain(chain: ShadowChain, indexerUrl: string): Promise<ShadowFacts> {
  const economy = await createEconomy(chain, SEED);
  await economy.run(BLOCKS);
  const random = createSfc32(SEED);
  const owners = [0, 1].map(() => Keypair.fromSeed(random.fill(new Uint8Array(32)))) as [Keypair, Keypair];
  for (const { publicKey } of owners) await chain.fund(publicKey.toBase58(), 20 * LAMPORTS_PER_SOL);
  const rpc = new Rpc(chain.rpcUrl, indexerUrl, indexerUrl, { commitment: 'confirmed', wsEndpoint: chain.wsUrl });
  const call = async <T>(method: string, params: readonly unknown[]): Promise<T> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    return ((await response.json()) as { readonly result: T }).result;
  };
  const caughtUp = async () => {
    const slot = await chain.connection.getSlot('confirmed');
    // An error before the first block.
    while ((await rpc.getIndexerSlot().catch(() => 0)) < slot) await sleep(DONE_PACE_MS);
  };
  const landing = landingRpc(rpc, call, caughtUp);
  await caughtUp();
  const trees = createStateTrees();
  const [one, other] = owners;
  const token = await createTokenMint(landing, Keypair.fromSeed(random.fill(new Uint8Array(32))), owners);
  for (const tree of [trees.v1[0]!, trees.v2[0]!])
    for (const [at, to] of [one, other, one].entries()) {
      const parts = { payer: one.publicKey, toAddress: to.publicKey, lamports: 3_000_000 + at };
      const instruction = await LightSystemProgram.compress({ ...parts, outputStateTreeInfo: tree });
      await send(landing, { kind: 'compress', instructions: [instruction], payer: one });
      await mintTo(landing, token, to.publicKey, 1_000 + at, tree);
    }
  return {
    economy,
    compressed: owners.map(({ publicKey }) => publicKey.toBase58()),
    compressedMint: token.mint.toBase58(),
    provedTree: trees.v1[0]!.tree.toBase58(),
  };
}
