import { AssertionError } from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { arrayItems } from '../../src/lib/json.ts';

/** A request as the upstream received it. */
export interface SeenCall {
  readonly method: string;
  readonly params: unknown;
  /** Raw bytes of the body as text. */
  readonly body: string;
  readonly headers: IncomingHttpHeaders;
  /** Path and query. */
  readonly url: string;
  readonly id: unknown;
  /** Whether the caller went away before it had the whole answer. */
  readonly aborted: () => boolean;
}

/** What the upstream does with a call. */
export type Behaviour =
  /** Raw JSON of the result, in an envelope with the caller's id. */
  | { readonly result: string }
  /** Anything at all. `chunks` are written one by one; `end: false` leaves the answer open. */
  | {
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly chunks: readonly (string | Buffer)[];
      readonly end?: boolean;
    }
  /** `reset`: closes the socket; `hang`: never answers; `cut`: promises more bytes than it sends, then closes. */
  | { readonly fault: 'reset' | 'hang' }
  | { readonly fault: 'cut'; readonly body: string };

export type Responder = (call: SeenCall) => Behaviour | Promise<Behaviour>;

/** A subscription that a client of the upstream holds. */
export interface SeenSubscription {
  readonly id: number;
  readonly method: string;
  readonly paramsText: string;
  readonly socket: WebSocket;
  ended: boolean;
}

/** `close`: the node closes the connection over the call, as one does over a message that is too large. */
type SubscribeAnswer = (
  method: string,
  paramsText: string,
) => { readonly error: string } | 'accept' | 'silence' | 'close';

export interface TestUpstream {
  readonly url: string;
  readonly wsUrl: string;
  /** All calls, health checks too; those of a batch one by one. */
  readonly calls: readonly SeenCall[];
  /** Numbers of calls of the batches that it was sent. */
  readonly batches: readonly number[];
  /** Answers every batch so; null: with the answers to its calls. */
  refuseBatches(behaviour: Behaviour | null): void;
  callsOf(method: string): readonly SeenCall[];
  /** Replaces the behaviour for a method, or for all others with `*`. */
  on(method: string, responder: Responder | Behaviour): void;
  readonly subscriptions: readonly SeenSubscription[];
  /** Subscriptions of a method that were not ended. */
  held(method: string): readonly SeenSubscription[];
  readonly openSockets: number;
  /** How subscribe calls are answered; default: a new id. */
  onSubscribe(answer: SubscribeAnswer): void;
  /** Sends a notification with this raw result to one subscription. */
  notify(subscription: SeenSubscription, resultText: string): void;
  /** Cuts all websockets. */
  dropSockets(): void;
  /** Refuses connections from now on, and cuts the open ones. */
  down(): Promise<void>;
  /** Listens again on the same port. */
  up(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * A JSON-RPC server whose misbehaviour is programmed: for faults only, a real chain is used for everything else. It answers
 * getSlot, getHealth and getGenesisHash so that it counts as healthy; everything else is -32601 until it is told more.
 */
export async function startUpstream(options: { slot?: number; genesisHash?: string } = {}): Promise<TestUpstream> {
  const responders = new Map<string, Responder>();
  const calls: SeenCall[] = [];
  const batches: number[] = [];
  let refusal: Behaviour | null = null;
  const subscriptions: SeenSubscription[] = [];
  const sockets = new Set<Socket>();
  let answerSubscribe: SubscribeAnswer = () => 'accept';
  let nextSubscription = 1_000_000_007;
  // Its caller may leave, and what a responder asks may have ended before it: such a test fails no file.
  const server = createServer((request, response) =>
    serve(request, response).catch((error: unknown) => {
      if (error instanceof AssertionError) throw error;
      response.destroy();
    }),
  );
  // Like a node, it closes no connection for being idle: a test process that stalls for longer would break calls.
  server.keepAliveTimeout = 0;
  const webSockets = new WebSocketServer({ server, perMessageDeflate: false });

  const on = (method: string, given: Responder | Behaviour) =>
    void responders.set(method, typeof given === 'function' ? given : () => given);
  on('getSlot', { result: String(options.slot ?? 1_000) });
  on('getHealth', { result: '"ok"' });
  on('getVersion', { result: '{"solana-core":"3.0.0","feature-set":1}' });
  on('getFirstAvailableBlock', { result: '0' });
  on('getGenesisHash', { result: JSON.stringify(options.genesisHash ?? '11111111111111111111111111111112') });
  on('*', ({ id }) => ({
    chunks: [
      `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":${JSON.stringify(id ?? null)}}`,
    ],
  }));

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const given: unknown = JSON.parse(text);
    let aborted = false;
    response.on('close', () => {
      aborted = !response.writableFinished;
    });
    const about = { headers: request.headers, url: request.url ?? '', aborted: () => aborted };
    const run = async (item: unknown, body: string): Promise<[Behaviour, SeenCall]> => {
      const { method, params, id } = item as { method: string; params: unknown; id: unknown };
      const call = { method, params, id, body, ...about };
      calls.push(call);
      return [await (responders.get(method) ?? responders.get('*')!)(call), call];
    };
    if (!Array.isArray(given)) return answer(...(await run(given, text)), response);
    batches.push(given.length);
    if (refusal !== null) return answer(refusal, { id: null }, response);
    const bytes = Buffer.from(text);
    const spans = arrayItems(bytes) ?? [];
    const made = await Promise.all(
      given.map((item, at) => run(item, bytes.toString('utf8', spans[at]?.start, spans[at]?.end))),
    );
    // What is no plain answer to one call happens to all of them.
    const [whole] = made.find(([behaviour]) => itemOf(behaviour, null) === null) ?? [];
    if (whole !== undefined) return answer(whole, { id: null }, response);
    const items = made.map(([behaviour, { id }]) => itemOf(behaviour, id));
    answer({ chunks: [`[${items.join(',')}]`] }, { id: null }, response);
  }

  webSockets.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.on('close', () => {
      for (const subscription of subscriptions) if (subscription.socket === socket) subscription.ended = true;
    });
    socket.on('message', (data) => {
      const { id, method, params } = JSON.parse(String(data)) as { id: number; method: string; params?: unknown[] };
      const reply = (member: string) => socket.send(`{"jsonrpc":"2.0",${member},"id":${JSON.stringify(id)}}`);
      if (method.endsWith('Unsubscribe')) {
        const found = subscriptions.find((other) => other.id === params?.[0] && !other.ended);
        if (found !== undefined) found.ended = true;
        reply(`"result":${found !== undefined}`);
        return;
      }
      const decision = answerSubscribe(method, JSON.stringify(params ?? null));
      if (decision === 'silence') return;
      if (decision === 'close') return socket.close(1009);
      if (decision !== 'accept') return reply(`"error":${decision.error}`);
      const subscription = {
        id: nextSubscription++,
        method,
        paramsText: JSON.stringify(params ?? null),
        socket,
        ended: false,
      };
      subscriptions.push(subscription);
      reply(`"result":${subscription.id}`);
    });
  });

  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });

  async function listen(port: number): Promise<number> {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  async function down(): Promise<void> {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  }

  const port = await listen(0);
  return {
    url: `http://127.0.0.1:${port}`,
    wsUrl: `ws://127.0.0.1:${port}`,
    calls,
    batches,
    refuseBatches(behaviour) {
      refusal = behaviour;
    },
    callsOf: (method) => calls.filter((call) => call.method === method),
    on,
    subscriptions,
    held: (method) => subscriptions.filter((other) => other.method === method && !other.ended),
    get openSockets() {
      return webSockets.clients.size;
    },
    onSubscribe(given) {
      answerSubscribe = given;
    },
    notify({ method, id, socket }, resultText) {
      const name = method.replace('Subscribe', 'Notification');
      socket.send(`{"jsonrpc":"2.0","method":"${name}","params":{"result":${resultText},"subscription":${id}}}`);
    },
    dropSockets() {
      for (const socket of webSockets.clients) socket.terminate();
    },
    down,
    async up() {
      await listen(port);
    },
    stop: down,
  };
}

/** The answer to one call of a batch; null for a behaviour that is of the whole response. */
function itemOf(behaviour: Behaviour, id: unknown): string | null {
  if ('result' in behaviour) return `{"jsonrpc":"2.0","result":${behaviour.result},"id":${JSON.stringify(id)}}`;
  if ('fault' in behaviour || behaviour.status !== undefined || behaviour.end === false) return null;
  return behaviour.headers === undefined ? behaviour.chunks.join('') : null;
}

function answer(behaviour: Behaviour, call: Pick<SeenCall, 'id'>, response: ServerResponse): void {
  if ('result' in behaviour) {
    response.setHeader('content-type', 'application/json');
    response.end(`{"jsonrpc":"2.0","result":${behaviour.result},"id":${JSON.stringify(call.id ?? null)}}`);
    return;
  }
  if (!('fault' in behaviour)) {
    response.writeHead(behaviour.status ?? 200, { 'content-type': 'application/json', ...behaviour.headers });
    for (const chunk of behaviour.chunks) response.write(chunk);
    if (behaviour.end !== false) response.end();
    return;
  }
  if (behaviour.fault === 'hang') return;
  if (behaviour.fault === 'cut') {
    response.writeHead(200, { 'content-length': String(behaviour.body.length + 1_000) });
    response.write(behaviour.body, () => response.destroy());
    return;
  }
  response.socket?.resetAndDestroy();
}
