/** A real node, a whole daemon that follows it, and what watches the two: webhooks of each kind, clients, a comparison of answers. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, Keypair, type PublicKey } from '@solana/web3.js';
import { Webhook } from 'standardwebhooks';
import { type AgaveNode, type AgaveOptions, startAgave } from '../../helpers/agave.ts';
import { type DaemonInProcess, type StartDaemonOptions, startDaemon } from '../../helpers/daemon.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';

/** A busy machine makes a node slow: slots take ten times as long, and 32 of them pass until a block is final. */
const PATIENCE_MS = 300_000;
/** What comes twice comes soon. */
const AFTERMATH_MS = 1_500;

export interface Hook {
  readonly name: string;
  /** Signatures in the order of their arrival, each with the signature of its message checked. */
  arrived(): string[];
}

export interface AgaveBed {
  readonly node: AgaveNode;
  readonly daemon: DaemonInProcess;
  readonly url: string;
  readonly socketUrl: string;
  /** web3.js on the daemon at `confirmed`; its socket is closed with the bed. */
  connect(): Connection;
  /** A wallet for each name, with lamports. */
  funded(count: number, lamports?: number): Promise<Keypair[]>;
  watch(name: string, addresses: readonly PublicKey[], fields?: object): Promise<Hook>;
}

export interface BedOptions extends AgaveOptions, Pick<StartDaemonOptions, 'config'> {
  /** `store.url` of a database that goes away after the daemon. */
  readonly store?: () => Promise<string>;
  /** What the daemon follows instead of the node itself. */
  readonly upstream?: (node: AgaveNode) => Promise<{ readonly rpcUrl: string; readonly wsUrl: string }>;
  readonly upstreams?: (node: AgaveNode) => readonly unknown[];
}

export async function startBed(t: TestContext, options: BedOptions = {}): Promise<AgaveBed> {
  const stops: (() => unknown)[] = [];
  t.after(async () => {
    for (const stop of stops.toReversed()) await stop();
  });
  const node = await startAgave(options);
  stops.push(node.stop);
  const receiver = await startReceiver();
  stops.push(receiver.close);
  const upstream = (await options.upstream?.(node)) ?? node;
  const daemon = await startDaemon({
    chain: upstream,
    ...(options.store === undefined ? {} : { store: await options.store() }),
    config: {
      webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
      ...(options.upstreams === undefined ? {} : { upstream: { urls: options.upstreams(node) } }),
      ...options.config,
    },
  });
  stops.push(daemon.stop);
  const query = `/?api-key=${daemon.key}`;
  const [url, socketUrl] = [daemon.apiUrl + query, daemon.apiUrl.replace('http', 'ws') + query];
  const connections: Connection[] = [];
  stops.push(() => connections.forEach(hangUp));
  return {
    node,
    daemon,
    url,
    socketUrl,
    connect() {
      const connection = connectTo(url, socketUrl);
      connections.push(connection);
      return connection;
    },
    async funded(count, lamports = 20_000_000_000) {
      const pairs = Array.from({ length: count }, () => Keypair.generate());
      await node.fund(
        pairs.map(({ publicKey }) => publicKey),
        lamports,
      );
      return pairs;
    },
    watch: (name, addresses, fields = {}) => watch(daemon, receiver, name, addresses, fields),
  };
}

interface Web3Socket {
  reconnect: boolean;
  call(method: string, params: unknown): Promise<unknown>;
  close(code: number): void;
}

const socketOf = (connection: Connection): Web3Socket =>
  (connection as unknown as { _rpcWebSocket: Web3Socket })._rpcWebSocket;

/**
 * web3.js 1.99 asks again at once for a subscription that its closing socket refused. Nothing lets the end of the socket be heard in between,
 * so it would do so until the memory is full: here each call waits for a turn.
 */
export function connectTo(url: string, wsEndpoint: string): Connection {
  const connection = new Connection(url, { commitment: 'confirmed', wsEndpoint });
  const socket = socketOf(connection);
  const call = socket.call.bind(socket);
  socket.call = async (method, params) => {
    await new Promise((resolve) => setImmediate(resolve));
    return await call(method, params);
  };
  return connection;
}

/** web3.js has no way to end its socket, and would try to connect again for ever. */
export function hangUp(connection: Connection): void {
  const socket = socketOf(connection);
  socket.reconnect = false;
  socket.close(1000);
}

async function watch(
  daemon: DaemonInProcess,
  receiver: Receiver,
  name: string,
  addresses: readonly PublicKey[],
  fields: object,
): Promise<Hook> {
  const response = await fetch(`${daemon.apiUrl}/v0/webhooks?api-key=${daemon.key}`, {
    method: 'POST',
    body: JSON.stringify({
      webhookURL: `${receiver.url}/${name}`,
      webhookType: 'raw',
      accountAddresses: addresses.map(String),
      ...fields,
    }),
  });
  const hook = (await response.json()) as { signingSecret: string };
  assert.equal(response.status, 200, JSON.stringify(hook));
  const verifier = new Webhook(hook.signingSecret);
  type Element = { readonly signature?: string; readonly transaction?: { readonly signatures: readonly string[] } };
  const signatures: string[] = [];
  let looked = 0;
  return {
    name,
    arrived() {
      for (; looked < receiver.received.length; looked += 1) {
        const { url, body, headers } = receiver.received[looked]!;
        if (url !== `/${name}`) continue;
        verifier.verify(body.toString(), headers as Record<string, string>);
        const elements = JSON.parse(body.toString()) as Element[];
        for (const { signature, transaction } of elements)
          signatures.push(signature ?? transaction?.signatures[0] ?? 'none');
      }
      return [...signatures];
    },
  };
}

/**
 * Waits until the hook got each of the signatures, then a while for what must not come: each is there once, and nothing else but,
 * once too, what was confirmed before a node lost it.
 */
export async function arrivedOnce(
  hook: Hook,
  expected: readonly string[],
  lost: readonly string[] = [],
): Promise<void> {
  await eventually(() => {
    const seen = new Set(hook.arrived());
    const missing = expected.filter((signature) => !seen.has(signature));
    return missing.length === 0
      ? null
      : `${hook.name}: ${missing.length} of ${expected.length} did not arrive: ${missing}`;
  });
  await sleep(AFTERMATH_MS);
  const arrived = hook.arrived();
  const alsoHere = lost.filter((signature) => arrived.includes(signature));
  assert.deepEqual(arrived.toSorted(), [...expected, ...alsoHere].toSorted(), hook.name);
}

/** Asks until there is nothing to say against it. */
export async function eventually(complaint: () => string | null | Promise<string | null>): Promise<void> {
  let said: string | null = null;
  for (const startedMs = performance.now(); performance.now() - startedMs < PATIENCE_MS; await sleep(100)) {
    said = await complaint();
    if (said === null) return;
  }
  assert.fail(said ?? 'no time');
}

/** The daemon's blocks have come to the slot where the node is at `confirmed` now. */
export async function caughtUp({ node, daemon }: Pick<AgaveBed, 'node' | 'daemon'>): Promise<number> {
  const slot = await node.call<number>('getSlot', [{ commitment: 'confirmed' }]);
  await eventually(() => {
    const at = daemon.daemon.load().chains[0]?.cursorSlot ?? 0;
    return at >= slot ? null : `the daemon stands at ${at}, the node at ${slot}`;
  });
  return slot;
}

interface Listed {
  readonly signature: string;
  readonly slot: number;
}

const LISTED_AT_ONCE = 1_000;

/** Every signature that names one of the addresses, newest first, in the order of the blocks: the node's own word. */
export async function signaturesOf(node: AgaveNode, addresses: readonly PublicKey[]): Promise<string[]> {
  const slots = new Map<string, number>();
  for (const address of addresses) {
    const options = { commitment: 'confirmed', limit: LISTED_AT_ONCE };
    const listed = await node.call<Listed[]>('getSignaturesForAddress', [String(address), options]);
    assert.ok(listed.length < LISTED_AT_ONCE);
    for (const { signature, slot } of listed) slots.set(signature, slot);
  }
  const places = new Map<string, number>();
  for (const slot of new Set(slots.values())) {
    const options = { commitment: 'confirmed', transactionDetails: 'signatures', rewards: false };
    const versions = { maxSupportedTransactionVersion: 1 };
    const block = await node.call<{ signatures: string[] }>('getBlock', [slot, { ...options, ...versions }]);
    for (const [place, signature] of block.signatures.entries()) places.set(signature, place);
  }
  const order = (signature: string) => (slots.get(signature) as number) * 1e6 + (places.get(signature) as number);
  return [...slots.keys()].toSorted((one, other) => order(other) - order(one));
}

/** The same body to both, whatever comes back. */
export async function sameBytes(
  { node, url }: Pick<AgaveBed, 'node' | 'url'>,
  method: string,
  params: readonly unknown[],
) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const ask = async (target: string) => {
    const init = { method: 'POST', body, headers: { 'content-type': 'application/json' } };
    return (await fetch(target, init)).text();
  };
  const [direct, through] = await Promise.all([ask(node.rpcUrl), ask(url)]);
  assert.equal(through, direct, body);
  // What can never change comes out of a cache the second time.
  assert.equal(await ask(url), direct, body);
  return direct;
}
