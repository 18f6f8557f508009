/**
 * `npm run try`: what a new user would do, with each client library, against one daemon; a line for each client and flow.
 * `npm run try -- --node` has the daemon follow a real Agave node, and not the local chain; `--only web3,kit` runs some clients.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Connection, Keypair, type PublicKey } from '@solana/web3.js';
import { encode32 } from '../../../src/lib/base58.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { agaveMissing, startAgave } from '../../helpers/agave.ts';
import { createModelTree, mintOf, treeTransaction } from '../../helpers/bubblegum.ts';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { createWorld, type World } from '../../helpers/das-world.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';

const LAMPORTS = 10_000_000_000;
const SLOT_MS = 200;
const CLIENTS: readonly string[] = [
  'web3',
  'kit',
  'spl-token',
  'helius-sdk',
  'helius-sdk-2',
  'umi',
  'metaplex-js',
  'anchor',
  'wallet-adapter',
];
/** Those that are not among the packages of this repository. */
const OWN_PACKAGES: readonly string[] = ['umi', 'metaplex-js', 'anchor', 'wallet-adapter'];

/** Answers nothing, or why it could not be tried. */
type Flow = () => Promise<unknown>;

interface Surroundings {
  readonly url: string;
  readonly socketUrl: string;
  readonly key: string;
  /** The secret key of a new wallet with lamports. */
  funded(): Promise<Uint8Array>;
  /** A wallet with assets of all kinds, which only the local chain can be given. */
  readonly assets: World | null;
  /** A compressed NFT beside them. */
  readonly leaf: Leaf | null;
  /** Called when the client is done. */
  readonly ends: (() => void)[];
}

type Leaf = Awaited<ReturnType<typeof mintLeaf>>;

async function mintLeaf(chain: TestChain) {
  const [key, name] = [new Uint8Array(32).fill(78), 'Leaf 0'];
  const tree = createModelTree(key, 5);
  const { schema, data } = mintOf(key, 0, 40, name);
  const calls = [
    { call: 'start', tree: key, told: tree.started() } as const,
    { call: 'replace', tree: key, told: tree.set(0, hashLeaf(schema)), schema, data } as const,
  ];
  for (const [at, call] of calls.entries()) await chain.appendRecorded(treeTransaction(1, at, [call]) as never);
  return { id: encode32(schema.id), name, tree: encode32(key), root: encode32(tree.root()) };
}

async function startBackend(isNode: boolean) {
  if (isNode) {
    const missing = agaveMissing();
    if (missing !== null) throw new Error(missing);
    const node = await startAgave({ slotMs: SLOT_MS });
    return { chain: node, fund: (address: string) => node.fund([address], LAMPORTS), stop: node.stop };
  }
  const chain = await startChain({ slotMs: SLOT_MS, finalityDepth: 4, time: { kind: 'wall' } });
  const fund = async (address: string) => {
    const signature = await chain.fund(address, LAMPORTS);
    while ((await chain.connection.getSignatureStatus(signature)).value === null)
      await new Promise((resolve) => setTimeout(resolve, 50));
  };
  return { chain, fund, stop: chain.stop };
}

function installOwnPackages(): void {
  const folder = fileURLToPath(new URL('.', import.meta.url));
  const { dependencies } = JSON.parse(readFileSync(`${folder}package.json`, 'utf8')) as { dependencies: object };
  if (Object.keys(dependencies).every((name) => existsSync(`${folder}node_modules/${name}`))) return;
  console.log('installing umi, metaplex.js, Anchor and wallet-adapter (once)');
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts', '--omit=optional'], { cwd: folder, stdio: 'inherit' });
  if (status !== 0) throw new Error('npm ci failed');
}

/** Most clients simulate against final blocks unless they are told otherwise. */
async function untilFinal(rpcUrl: string, key: PublicKey): Promise<void> {
  const connection = new Connection(rpcUrl);
  for (let tries = 0; tries < 600; tries += 1) {
    if ((await connection.getBalance(key, 'finalized')) > 0) return;
    await sleep(50);
  }
  throw new Error(`the funds of ${key} are not final`);
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { node: { type: 'boolean', default: false }, only: { type: 'string' } } });
  const only = values.only?.split(',') ?? CLIENTS;
  const unknown = only.filter((name) => !CLIENTS.includes(name));
  if (unknown.length > 0) throw new Error(`no such client: ${unknown}; there are ${CLIENTS.join(', ')}`);
  if (only.some((name) => OWN_PACKAGES.includes(name))) installOwnPackages();
  const { chain, fund, stop } = await startBackend(values.node);
  const assets = 'setAccount' in chain ? await createWorld(chain) : null;
  const leaf = 'appendRecorded' in chain ? await mintLeaf(chain) : null;
  // From the first block of the local chain on, so that the tree is known from its first change.
  const following = {
    follow: { startSlot: 1_000 },
    compression: { cnft: { trees: [leaf?.tree] }, verifyChain: false },
  };
  const daemon = await startDaemon({ chain, ...(leaf === null ? {} : { config: following }) });
  const restore = redirectHostedClients(daemon.apiUrl);
  const query = `/?api-key=${daemon.key}`;
  console.log(`daemon ${daemon.apiUrl} on ${values.node ? 'an Agave node' : 'the local chain'}`);
  let failures = 0;
  for (const name of only) {
    const ends: (() => void)[] = [];
    const surroundings: Surroundings = {
      url: daemon.apiUrl + query,
      socketUrl: daemon.apiUrl.replace('http', 'ws') + query,
      key: daemon.key,
      async funded() {
        const pair = Keypair.generate();
        await fund(pair.publicKey.toBase58());
        await untilFinal(chain.rpcUrl, pair.publicKey);
        return pair.secretKey;
      },
      assets,
      leaf,
      ends,
    };
    const module = (await import(new URL(`./${name}.mjs`, import.meta.url).href)) as {
      default(surroundings: Surroundings): Promise<Readonly<Record<string, Flow>>>;
    };
    for (const [flow, run] of Object.entries(await module.default(surroundings))) {
      const startedMs = performance.now();
      const outcome = await run().then(
        (reason) => (typeof reason === 'string' ? `skipped: ${reason}` : 'ok'),
        (error: unknown) => {
          failures += 1;
          return `FAILED: ${String((error as Error)?.stack ?? error)}`;
        },
      );
      console.log(`${name.padEnd(16)}${flow.padEnd(48)}${outcome} (${Math.round(performance.now() - startedMs)} ms)`);
    }
    for (const end of ends) end();
  }
  restore();
  await daemon.stop();
  await stop();
  console.log(failures === 0 ? 'all passed' : `${failures} failed`);
  return failures === 0 ? 0 : 1;
}

// Some clients keep timers and sockets that nothing ends.
process.exit(await main());
