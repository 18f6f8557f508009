import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { stringify } from '../../lib/json.ts';
import { failure, idOf, parseError, type RpcRequest, type RpcResponse, readRequest } from '../rpc/dispatch.ts';
import { invalidParams, RPC, rpcError } from '../rpc/rpc-error.ts';
import { parseBody } from '../rpc/server.ts';
import type { Publisher, Subscription } from './publisher.ts';
import { topicOf, unsubscribedId } from './subscription.ts';

const MAX_MESSAGE_BYTES = 1024 * 1024;
const MAX_QUEUED_MESSAGES = 10_000;
const MAX_SUBSCRIPTIONS = 10_000;
const TRY_AGAIN_LATER = 1013;
const NORMAL = 1000;
const ABNORMAL = 1006;
const GOODBYE_MS = 250;

/** Passes a notification on, changes it or keeps it: the place for faults. */
export type NotificationFilter = (kind: string, text: string, socket: WebSocket, send: (text: string) => void) => void;

export type Sockets = ReturnType<typeof createSockets>;

/** WebSocket side of the node: subscriptions only, as on a real node. */
export interface SocketHooks {
  readonly filter: NotificationFilter;
  answersPing(): boolean;
  /** The only method that a node answers here beside subscriptions. */
  version(params: unknown): unknown;
}

export function createSockets(publisher: Publisher, { filter, answersPing, version }: SocketHooks) {
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    autoPong: false,
  });
  let nextId = 0;
  server.on('connection', (socket) => {
    const live = new Map<number, Subscription>();
    const send = boundedSend(socket);
    const end = (id: number): boolean => {
      const subscription = live.get(id);
      if (subscription !== undefined) publisher.remove(subscription);
      return live.delete(id);
    };
    function subscribe(request: RpcRequest, later: (() => void)[]): number {
      const topic = topicOf(request.method, request.params);
      if (topic === null) throw rpcError(RPC.methodNotFound, 'Method not found');
      if (live.size >= MAX_SUBSCRIPTIONS) {
        throw rpcError(RPC.internal, 'Internal Error: Subscription refused. Node subscription limit reached');
      }
      const id = nextId++;
      const method = `${topic.kind}Notification`;
      const subscription: Subscription = {
        topic,
        notify: (result) =>
          filter(topic.kind, stringify({ jsonrpc: '2.0', method, params: { result, subscription: id } }), socket, send),
        finish: () => void end(id),
      };
      live.set(id, subscription);
      later.push(() => publisher.add(subscription));
      return id;
    }
    function run(request: RpcRequest, later: (() => void)[]): unknown {
      if (request.method === 'getVersion') return version(request.params);
      const ended = unsubscribedId(request.method, request.params);
      if (ended === null) return subscribe(request, later);
      if (!end(ended)) throw invalidParams('Invalid subscription id.');
      return true;
    }
    function answer(item: unknown, later: (() => void)[]): RpcResponse[] {
      try {
        const request = readRequest(item);
        const result = run(request, later);
        return request.isNotification ? [] : [{ jsonrpc: '2.0', result, id: request.id }];
      } catch (error) {
        return [failure(idOf(item), error)];
      }
    }
    socket.on('message', (data) => {
      const body = parseBody(String(data));
      if (body === undefined) return send(stringify(failure(null, parseError())));
      const later: (() => void)[] = [];
      const answers = (Array.isArray(body) ? body : [body]).flatMap((item) => answer(item, later));
      if (answers.length > 0) send(stringify(Array.isArray(body) ? answers : answers[0]));
      // The id must be known to the client before the first notification names it.
      for (const add of later) add();
    });
    socket.on('ping', (data) => {
      if (answersPing()) socket.pong(data);
    });
    socket.on('error', () => socket.terminate());
    socket.on('close', () => {
      for (const id of [...live.keys()]) end(id);
    });
  });
  return {
    upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
      server.handleUpgrade(request, socket, head, (client) => server.emit('connection', client, request));
    },
    /** Ends all sockets with `code`; 1006 = without a close frame. */
    drop(code = ABNORMAL): void {
      for (const client of server.clients) {
        if (code === ABNORMAL) client.terminate();
        else client.close(code);
      }
    },
    /** Says goodbye in a way that clients take as final, and waits for their answer for a short time. */
    async stop(): Promise<void> {
      const open = [...server.clients];
      const gone = Promise.all(open.map((client) => new Promise((resolve) => client.once('close', resolve))));
      for (const client of open) client.close(NORMAL);
      const timer = setTimeout(() => {
        for (const client of open) client.terminate();
      }, GOODBYE_MS);
      await gone;
      clearTimeout(timer);
    },
  };
}

/** A client that reads too slowly is told to come back instead of filling the memory. */
function boundedSend(socket: WebSocket): (text: string) => void {
  let queued = 0;
  return (text) => {
    if (socket.readyState !== socket.OPEN) return;
    if (queued >= MAX_QUEUED_MESSAGES) return socket.close(TRY_AGAIN_LATER);
    queued += 1;
    socket.send(text, () => {
      queued -= 1;
    });
  };
}
