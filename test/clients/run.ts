/**
 * Calls one daemon with clients of other languages: `npm run clients`, or `npm run clients -- go rust` for some of them.
 * Each folder beside this file is one client program. A language whose tools are absent is named and passed over; a flow that fails
 * ends the run with 1. Packages come from the language's own registry into `.cache/clients`, which outlives the run.
 *
 * A program finds the daemon by PARHELION_URL (JSON-RPC, with the key), PARHELION_WS (the same over a websocket), PARHELION_BASE (no
 * path, no key), PARHELION_GRPC (streams), PARHELION_KEY, PARHELION_PROJECT and PARHELION_ACCOUNT (of more lamports than a double holds). It
 * prints a line per flow: `ok NAME`, or `not ok NAME: REASON`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { ownDocuments } from '../../packaging/sdk/documents.ts';
import { sdkFiles } from '../../packaging/sdk/packages.ts';
import { SYSTEM_PROGRAM } from '../../src/solana/programs.ts';
import { EXAMPLES } from '../../src/solana/schemas.ts';
import { startChain } from '../helpers/chain.ts';
import { startDaemonProcess } from '../helpers/daemon.ts';
import { freePort } from '../helpers/free-port.ts';
import { findProjectRoot } from '../helpers/project-root.ts';

const sources = fileURLToPath(new URL('./', import.meta.url));
const cache = fileURLToPath(new URL('../../.cache/clients/', import.meta.url));

/** Slots of 400 ms; a block is final two slots later, so that clients that wait for `finalized` do not wait for long. */
const CHAIN = { slotMs: 400, finalityDepth: 2 };
const PLUGINS = [
  'access',
  'accounts',
  'compression',
  'das',
  'dashboard',
  'enhanced',
  'fees',
  'history',
  'parsed',
  'prices',
  'proxy',
  'sender',
  'streams',
  'token-metadata',
  'wallet',
  'webhooks',
];
const CONFIG = {
  plugins: PLUGINS,
  // What a client of streams asks for again after a lost connection.
  ledger: { retain: { hours: 1 } },
  log: { level: 'error', format: 'json' },
  webhooks: { allowCidrs: ['127.0.0.0/8'] },
  // The Rust SDK reads only entries with all members.
  wallet: { identity: { batchUnknown: 'full' } },
};
const LAMPORTS = 9_007_199_254_740_993n;
const MAX_MS = 20 * 60_000;

interface Client {
  readonly name: string;
  /** The program whose absence passes the client over. */
  readonly needs: string;
  /** Runs in a copy of the client's folder below the cache: installs packages, compiles. */
  readonly install: readonly (readonly string[])[];
  readonly run: readonly string[];
  /** The program of the page of docs/ about this language. It shows a slot and ends. */
  readonly first?: readonly string[];
  /** Language of our own package, which is put beside the program in `sdk/`. */
  readonly sdk?: 'go' | 'python' | 'rust';
}

const CLIENTS: readonly Client[] = [
  { ...pythonClient('python', 'flows.py'), first: ['venv/bin/python', 'first.py'] },
  pythonClient('python-anchorpy', 'flows.py'),
  {
    name: 'go',
    needs: 'go',
    install: [
      ['go', 'mod', 'tidy'],
      ['go', 'build', '-o', 'flows', '.'],
    ],
    run: ['./flows'],
    first: ['go', 'run', './first'],
  },
  {
    name: 'java',
    needs: 'mvn',
    install: [['mvn', '-q', 'compile', 'dependency:build-classpath', '-Dmdep.outputFile=classpath']],
    run: ['sh', '-c', 'exec java -cp "target/classes:$(cat classpath)" Flows'],
    first: ['mvn', '-q', 'compile', 'exec:java', '-Dexec.mainClass=First'],
  },
  {
    name: 'rust',
    needs: 'cargo',
    install: [['cargo', 'build', '--quiet', '--ignore-rust-version']],
    run: ['./target/debug/flows'],
    first: ['./target/debug/first'],
  },
  {
    name: 'rust-streams',
    needs: 'cargo',
    install: [['cargo', 'build', '--quiet', '--ignore-rust-version']],
    run: ['./target/debug/flows'],
  },
  {
    name: 'sdk-python',
    needs: 'python3',
    sdk: 'python',
    install: [],
    run: ['env', 'PYTHONPATH=sdk', 'python3', 'flows.py'],
    first: ['env', 'PYTHONPATH=sdk', 'python3', 'first.py'],
  },
  {
    name: 'sdk-go',
    needs: 'go',
    sdk: 'go',
    install: [['go', 'build', '-o', 'flows', '.']],
    run: ['./flows'],
    first: ['go', 'run', './first'],
  },
  {
    name: 'sdk-rust',
    needs: 'cargo',
    sdk: 'rust',
    install: [['cargo', 'build', '--quiet']],
    run: ['./target/debug/flows'],
    first: ['./target/debug/first'],
  },
];

/** The files of our own packages, made when the first client needs them. */
let ownPackages: Promise<ReadonlyMap<string, string>> | undefined;

async function addSdk(language: string, folder: string): Promise<void> {
  const root = findProjectRoot();
  ownPackages ??= ownDocuments(root).then((documents) => sdkFiles(documents, { root }));
  for (const [name, text] of await ownPackages) {
    if (!name.startsWith(`${language}/`)) continue;
    const path = join(folder, name.replace(language, 'sdk'));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}

function pythonClient(name: string, file: string): Client {
  return {
    name,
    needs: 'python3',
    install: [
      ['python3', '-m', 'venv', 'venv'],
      ['venv/bin/pip', '-q', '--disable-pip-version-check', 'install', '-r', 'requirements.txt'],
    ],
    run: ['venv/bin/python', file],
  };
}

interface Outcome {
  readonly name: string;
  readonly passed: number;
  readonly failed: readonly string[];
  /** Why the client was not run. */
  readonly absent?: string;
}

async function main(names: readonly string[]): Promise<number> {
  const unknown = names.filter((name) => !CLIENTS.some((client) => client.name === name));
  if (unknown.length > 0) {
    console.error(`no such client: ${unknown.join(' ')}; there are ${CLIENTS.map(({ name }) => name).join(' ')}`);
    return 64;
  }
  const chosen = CLIENTS.filter(({ name }) => names.length === 0 || names.includes(name));
  // Before the chain starts: compilers take the whole machine, and the chain runs in this process.
  const absent = new Map<Client, string | null>();
  for (const client of chosen) absent.set(client, await install(client, join(cache, client.name)));
  const outcomes: Outcome[] = [];
  const chain = await startChain(CHAIN);
  await chain.setAccount(EXAMPLES.address, { owner: SYSTEM_PROGRAM, lamports: LAMPORTS, data: new Uint8Array() });
  const grpcPort = await freePort();
  const daemon = await startDaemonProcess({ chain, config: { ...CONFIG, streams: { grpc: { port: grpcPort } } } });
  try {
    const env = {
      ...process.env,
      PARHELION_BASE: daemon.apiUrl,
      PARHELION_URL: `${daemon.apiUrl}/?api-key=${daemon.key}`,
      PARHELION_WS: `${daemon.wsUrl}/?api-key=${daemon.key}`,
      PARHELION_GRPC: `http://127.0.0.1:${grpcPort}`,
      PARHELION_KEY: daemon.key,
      PARHELION_PROJECT: daemon.projectId,
      PARHELION_ACCOUNT: EXAMPLES.address,
    };
    for (const [client, reason] of absent) outcomes.push(await callWith(client, reason, env));
  } finally {
    await daemon.stop();
    await chain.stop();
  }
  return report(outcomes);
}

async function callWith(client: Client, absent: string | null, env: NodeJS.ProcessEnv): Promise<Outcome> {
  const { name } = client;
  console.log(`\n== ${name}`);
  const folder = join(cache, name);
  if (absent !== null) return { name, passed: 0, failed: [], absent };
  const failed: string[] = [];
  let passed = 0;
  if (client.first !== undefined) {
    const reason = await showsSlot(client.first, folder, env);
    console.log(reason === null ? 'ok program of docs/' : `not ok program of docs/: ${reason}`);
    if (reason === null) passed += 1;
    else failed.push(`program of docs/: ${reason}`);
  }
  const [command, ...args] = client.run;
  const child = spawn(command as string, args, {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: MAX_MS,
  });
  for await (const line of createInterface({ input: child.stdout })) {
    console.log(line);
    if (line.startsWith('ok ')) passed += 1;
    if (line.startsWith('not ok ')) failed.push(line.slice('not ok '.length));
  }
  const code = child.exitCode ?? (await new Promise((resolve) => child.once('exit', resolve)));
  if (code !== 0) failed.push(`the program ended with ${code ?? child.signalCode}`);
  if (passed + failed.length === 0) failed.push('the program ran no flow');
  return { name, passed, failed };
}

/** Null when a program prints a slot and ends well; otherwise what it did. */
async function showsSlot([command, ...args]: readonly string[], cwd: string, env: NodeJS.ProcessEnv) {
  const child = spawn(command as string, args, { cwd, env, timeout: MAX_MS });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return code === 0 && /^slot \d+$/m.test(text) ? null : `${code}: ${text.trim().slice(-400)}`;
}

/** Null when the client is ready to run; otherwise the reason why it cannot be had on this machine. */
async function install({ name, needs, install: steps, sdk }: Client, folder: string): Promise<string | null> {
  if (spawnSync('sh', ['-c', `command -v ${needs}`]).status !== 0) return `${needs} is not installed`;
  mkdirSync(folder, { recursive: true });
  for (const entry of readdirSync(join(sources, name))) {
    cpSync(join(sources, name, entry), join(folder, entry), { recursive: true });
  }
  if (sdk !== undefined) await addSdk(sdk, folder);
  for (const [command, ...args] of steps) {
    if (args.includes('venv') && existsSync(join(folder, 'venv/bin/pip'))) continue;
    const { status, stderr } = spawnSync(command as string, args, { cwd: folder, encoding: 'utf8', timeout: MAX_MS });
    if (status !== 0)
      return `\`${[command, ...args].join(' ')}\` failed: ${stderr.trim().split('\n').slice(-5).join(' | ')}`;
  }
  return null;
}

function report(outcomes: readonly Outcome[]): number {
  console.log('');
  for (const { name, passed, failed, absent } of outcomes) {
    if (absent !== undefined) console.log(`ABSENT ${name}: ${absent}`);
    else console.log(`${name}: ${passed} passed, ${failed.length} failed`);
    for (const reason of failed) console.log(`  ${reason}`);
  }
  const failures = outcomes.reduce((sum, { failed }) => sum + failed.length, 0);
  const ran = outcomes.some(({ absent }) => absent === undefined);
  return failures === 0 && ran ? 0 : 1;
}

process.exit(await main(process.argv.slice(2)));
