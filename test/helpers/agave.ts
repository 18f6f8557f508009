import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { setPriority, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, Keypair, PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import { codeOf } from '../../src/lib/coded-error.ts';
import { withTheTest } from './built-daemon.ts';
import { findProjectRoot } from './project-root.ts';

/** Ticks of 6.25 ms: the slots of 2026 last 200 ms, those of the years before 400 ms. */
const TICK_MS = 6.25;
export type SlotMs = 200 | 400;

/** HTTP, websocket, faucet, gossip, then the ports that the node shares out itself. */
const OWN_PORTS = 4;
const DYNAMIC_PORTS = 32;
/** Below the range that the system takes the ports of outgoing connections from. */
const LOWEST_PORT = 11_000;
const HIGHEST_PORT = 30_000;
const READY_MS = 180_000;
const FUND_PER_TRANSACTION = 15;
const CONFIRM_TURNS = 2_000;
const AGAIN_TURNS = 40;

const LIGHT_PROGRAMS: Readonly<Record<string, string>> = {
  noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV: 'spl_noop.so',
  SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7: 'light_system_program_pinocchio.so',
  cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m: 'light_compressed_token.so',
  compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq: 'account_compression.so',
  Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX: 'light_registry.so',
};

/** Releases of Agave that stand side by side: `solana-test-validator`, and the same with `-` and the version after it. */
export type AgaveRelease = '4.2' | '4.4' | '4.5';

/** A node by release and consensus, `4.4/alpenglow` in PARHELION_AGAVE; null: the suites choose. */
export function namedNode(): { readonly release: AgaveRelease; readonly alpenglow: boolean } | null {
  const name = process.env['PARHELION_AGAVE'];
  if (name === undefined) return null;
  const [release, consensus] = name.split('/') as [AgaveRelease, string | undefined];
  return { release, alpenglow: consensus === 'alpenglow' };
}

export interface AgaveOptions {
  /** Default: the named node, else 4.2. */
  readonly release?: AgaveRelease;
  /** Final by Alpenglow from slot 0 on; 4.5 knows nothing else. Default: as the named node. */
  readonly alpenglow?: boolean;
  readonly slotMs?: SlotMs;
  /** Loads the programs and trees of Light. */
  readonly light?: boolean;
  /** A folder with further accounts of the genesis, a file each. */
  readonly accounts?: string;
}

/** A real Agave node with one validator: banks, votes, commitments, pruning and websockets are those of a cluster. */
export interface AgaveNode {
  readonly slotMs: SlotMs;
  readonly rpcUrl: string;
  readonly wsUrl: string;
  /** A client at `confirmed` without a websocket. */
  readonly connection: Connection;
  readonly rpcPort: number;
  /** Holds the lamports of the genesis. */
  readonly payer: Keypair;
  /** Resolves when the lamports are there at `confirmed`. */
  fund(addresses: readonly (PublicKey | string)[], lamports: number): Promise<string[]>;
  /** A method of the node; throws its error. */
  call<T>(method: string, params: readonly unknown[]): Promise<T>;
  /** The ledger stays. Default SIGKILL. */
  kill(signal?: 'SIGKILL' | 'SIGTERM'): Promise<void>;
  /** Starts it again on the same ports: with its ledger, or with another genesis. */
  start(ledger: 'same' | 'new'): Promise<void>;
  /** The process stands still; its ports stay open. */
  freeze(): void;
  thaw(): void;
  stop(): Promise<void>;
}

const executable =
  process.env['PARHELION_VALIDATOR'] ?? join(findProjectRoot(), '../shared/tools/solana-test-validator');

/** The executable of a release; null when it is not there. */
function executableOf(release: AgaveRelease): string | null {
  if (release === '4.2') return existsSync(executable) ? executable : null;
  const folder = dirname(executable);
  const prefix = `${basename(executable)}-${release}.`;
  const name = existsSync(folder) ? readdirSync(folder).find((file) => file.startsWith(prefix)) : undefined;
  return name === undefined ? null : join(folder, name);
}

/** Why the node cannot run here, or null. With REQUIRE_AGAVE=1 a reason is an error. */
export function agaveMissing(release: AgaveRelease = '4.2'): string | null {
  const reason =
    process.platform !== 'linux' || process.arch !== 'x64'
      ? `the Agave node runs on linux-x64, not on ${process.platform}-${process.arch}`
      : executableOf(release) !== null
        ? null
        : `no Agave node ${release}: set PARHELION_VALIDATOR to a solana-test-validator 4.2, with others beside it`;
  if (reason !== null && process.env['REQUIRE_AGAVE'] === '1') throw new Error(reason);
  if (reason !== null) console.error(`SKIPPED: ${reason}`);
  return reason;
}

export async function startAgave(options: AgaveOptions = {}): Promise<AgaveNode> {
  const {
    release,
    alpenglow,
    slotMs = 200,
    light = false,
    accounts,
  } = {
    ...(namedNode() ?? { release: '4.2' as const, alpenglow: false }),
    ...options,
  };
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-agave-'));
  const payer = Keypair.generate();
  const rpcPort = await freePorts(OWN_PORTS + DYNAMIC_PORTS);
  const rpcUrl = `http://127.0.0.1:${rpcPort}`;
  const wsUrl = `ws://127.0.0.1:${rpcPort + 1}`;
  const connection = new Connection(rpcUrl, { commitment: 'confirmed', disableRetryOnRateLimit: true });
  let child: ChildProcess | null = null;
  let ledgers = 0;

  async function call<T>(method: string, params: readonly unknown[]): Promise<T> {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(rpcUrl, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    const { result, error } = (await response.json()) as { result?: T; error?: unknown };
    if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result as T;
  }

  async function start(ledger: 'same' | 'new'): Promise<void> {
    if (ledger === 'new') ledgers += 1;
    const logFile = join(folder, 'output.log');
    const output = openSync(logFile, 'a');
    const [command, ...rest] = [...withTheTest(), executableOf(release) ?? executable];
    const started = spawn(
      command as string,
      [
        ...rest,
        '--quiet',
        '--ledger',
        join(folder, `ledger-${ledgers}`),
        '--mint',
        payer.publicKey.toBase58(),
        '--bind-address',
        '127.0.0.1',
        '--rpc-port',
        `${rpcPort}`,
        '--faucet-port',
        `${rpcPort + 2}`,
        '--gossip-port',
        `${rpcPort + 3}`,
        '--dynamic-port-range',
        `${rpcPort + OWN_PORTS}-${rpcPort + OWN_PORTS + DYNAMIC_PORTS}`,
        '--ticks-per-slot',
        `${slotMs / TICK_MS}`,
        '--limit-ledger-size',
        '50000000',
        ...(alpenglow && release !== '4.5' ? ['--alpenglow'] : []),
        ...(light ? lightArguments() : []),
        ...(accounts === undefined ? [] : ['--account-dir', accounts]),
      ],
      { stdio: ['ignore', output, output], env: { ...process.env, RUST_LOG: 'error' } },
    );
    child = started;
    const isOver = () => started.exitCode !== null || started.signalCode !== null;
    for (const startedMs = performance.now(); performance.now() - startedMs < READY_MS; await sleep(100)) {
      if (isOver()) throw new Error(`the node ended with ${started.exitCode}: ${readFileSync(logFile, 'utf8')}`);
      // The first blocks after a start come before the bank that answers at `confirmed`.
      const [tip, health] = await Promise.all([
        call<number>('getSlot', [{ commitment: 'confirmed' }]).catch(() => 0),
        call<string>('getHealth', []).catch(() => ''),
      ]);
      if (tip > 1 && health === 'ok') return yieldCores(started.pid);
    }
    throw new Error(`the node is not ready: ${readFileSync(logFile, 'utf8')}`);
  }

  async function kill(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null || running.signalCode !== null) return;
    const gone = once(running, 'exit');
    running.kill(signal);
    await gone;
  }

  async function fund(addresses: readonly (PublicKey | string)[], lamports: number): Promise<string[]> {
    const keys = addresses.map((one) => new PublicKey(one));
    const sent = new Map<string, Buffer>();
    for (let from = 0; from < keys.length; from += FUND_PER_TRANSACTION) {
      const transaction = new Transaction();
      for (const toPubkey of keys.slice(from, from + FUND_PER_TRANSACTION))
        transaction.add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports }));
      const { blockhash } = await connection.getLatestBlockhash();
      Object.assign(transaction, { recentBlockhash: blockhash, feePayer: payer.publicKey });
      transaction.sign(payer);
      const bytes = transaction.serialize();
      sent.set(await connection.sendRawTransaction(bytes), bytes);
    }
    for (const [signature, bytes] of sent)
      await untilConfirmed(call, signature, () => connection.sendRawTransaction(bytes, { skipPreflight: true }));
    return [...sent.keys()];
  }

  const stop = async () => {
    await kill();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await start('new');
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    slotMs,
    rpcUrl,
    wsUrl,
    connection,
    rpcPort,
    payer,
    fund,
    call,
    kill,
    start,
    stop,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
  };
}

/** A thread of the node that never sleeps, with nothing to do as well. */
const SPINNING_THREAD = 'solBnkTxSched';
const LOWER_PRIORITY = 10;

/** Lets others have the core on which the node spins. */
function yieldCores(pid: number | undefined): void {
  for (const thread of readdirSync(`/proc/${pid}/task`))
    try {
      const isSpinning = readFileSync(`/proc/${pid}/task/${thread}/comm`, 'utf8').trim() === SPINNING_THREAD;
      if (isSpinning) setPriority(Number(thread), LOWER_PRIORITY);
    } catch (error) {
      // Threads come and go while they are listed.
      if (!['ENOENT', 'ESRCH'].includes(codeOf(error) ?? '')) throw error;
    }
}

interface Status {
  readonly slot: number;
  readonly err: unknown;
  readonly confirmationStatus: 'processed' | 'confirmed' | 'finalized';
}

/** The slot of a transaction that is confirmed or final; one that ended with an error counts too. A node that is busy may drop it: `again`. */
export async function untilConfirmed(
  call: AgaveNode['call'],
  signature: string,
  again: () => Promise<unknown> = async () => undefined,
): Promise<number> {
  for (let turn = 1; turn < CONFIRM_TURNS; turn += 1) {
    const { value } = await call<{ value: (Status | null)[] }>('getSignatureStatuses', [[signature]]);
    if (value[0] && value[0].confirmationStatus !== 'processed') return value[0].slot;
    if (turn % AGAIN_TURNS === 0) await again().catch(() => undefined);
    await sleep(50);
  }
  throw new Error(`${signature} did not land`);
}

function lightArguments(): string[] {
  const folder = dirname(createRequire(import.meta.url).resolve('@lightprotocol/zk-compression-cli/package.json'));
  return [
    ...Object.entries(LIGHT_PROGRAMS).flatMap(([id, file]) => ['--bpf-program', id, join(folder, 'bin', file)]),
    '--account-dir',
    join(folder, 'accounts'),
  ];
}

/** The first of so many ports in a row that nobody listens on. */
async function freePorts(count: number): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const first = LOWEST_PORT + Math.floor(Math.random() * (HIGHEST_PORT - LOWEST_PORT - count));
    const taken = await Promise.all(Array.from({ length: count }, (_, index) => isTaken(first + index)));
    if (!taken.includes(true)) return first;
  }
  throw new Error('no free ports in a row');
}

function isTaken(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(true));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(false)));
  });
}
