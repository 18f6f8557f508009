import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { failure, idOf, parseError, type RpcRequest, readRequest } from '../rpc/dispatch.ts';
import { writeJson } from '../rpc/json.ts';
import { RPC, rpcError } from '../rpc/rpc-error.ts';
import type { Publisher, Subscription } from './publisher.ts';
import { isUnsubscribe, topicOf } from './subscription.ts';

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
}

export function createSockets(publisher: Publisher, { filter, answersPing }: SocketHooks) {
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
    function subscribe(request: RpcRequest): void {
      const topic = topicOf(request.method, request.params);
      if (topic === null) throw rpcError(RPC.methodNotFound, 'Method not found');
      if (live.size >= MAX_SUBSCRIPTIONS) throw rpcError(RPC.internal, 'Too many subscriptions on this socket');
      const id = nextId++;
      const method = `${topic.kind}Notification`;
      const subscription: Subscription = {
        topic,
        notify: (result) =>
          filter(topic.kind, writeJson({ jsonrpc: '2.0', method, params: { result, subscription: id } }), socket, send),
        finish: () => void end(id),
      };
      live.set(id, subscription);
      // The id must be known to the client before the first notification names it.
      send(writeJson({ jsonrpc: '2.0', result: id, id: request.id }));
      publisher.add(subscription);
    }
    socket.on('message', (data) => {
      let value: unknown = null;
      try {
        value = parse(String(data));
        const request = readRequest(value);
        if (!isUnsubscribe(request.method)) return subscribe(request);
        send(writeJson({ jsonrpc: '2.0', result: end(Number(request.params[0])), id: request.id }));
      } catch (error) {
        send(writeJson(failure(idOf(value), error)));
      }
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw parseError();
  }
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
