/**
 * The lines between the main process and further processes of the API: the bus, and a line among the processes of the API. Both ends are
 * here. All of it goes over the channel that Node opens between parent and child.
 */
import { Server } from 'node:net';
import type { OpenThreadLine } from '../../ports/thread-line.ts';
import type { HandedSocket, SharedListeners } from '../../ports/workers.ts';
import type { Line } from '../bus/postgres-line.ts';
import type { StartedApiProcess } from './start-worker.ts';
import type { ToApiProcess, WorkerMessage } from './wire.ts';

type Take = (message: unknown) => void;
type Parcel = Parameters<Line['send']>[0];

/** In the main process: the lines to all further processes. A message from one of them also goes to the others. */
export interface ApiLines {
  readonly busLine: Line;
  readonly openLine: OpenThreadLine;
  /** What the process of this number has sent. */
  parcelFrom(index: number, parcel: unknown): void;
  messageFrom(index: number, name: string, message: unknown): void;
}

export function createApiLines(processes: () => readonly StartedApiProcess[]): ApiLines {
  const takers = new Map<string, Set<Take>>();
  let takeParcel: (parcel: Parcel) => void = () => undefined;
  const sendTo = (message: ToApiProcess, except: number | null) => {
    processes().forEach((process, index) => {
      if (index !== except) process.send(message);
    });
  };
  return {
    busLine: {
      send: (parcel) => sendTo({ parcel }, null),
      onParcel(take) {
        takeParcel = take;
      },
      async close() {},
    },
    openLine: (name, take) => ({
      post: (message) => sendTo({ line: name, message }, null),
      close: addTaker(takers, name, take),
    }),
    parcelFrom(index, parcel) {
      sendTo({ parcel }, index);
      takeParcel(parcel as Parcel);
    },
    messageFrom(index, name, message) {
      sendTo({ line: name, message }, index);
      for (const take of takers.get(name) ?? []) take(message);
    },
  };
}

/** In a further process: its input and its lines to the main process. */
export interface Parent {
  readonly data: Promise<unknown>;
  readonly busLine: Line;
  readonly openLine: OpenThreadLine;
  /** Once the main process has passed them. */
  readonly listeners: Promise<SharedListeners>;
  handOver(handed: HandedSocket): void;
}

/** It ends this process when the main process has ended. */
export function joinParent(): Parent {
  const takers = new Map<string, Set<Take>>();
  const listeners: Server[] = [];
  let takeParcel: (parcel: Parcel) => void = () => undefined;
  let giveData: (data: unknown) => void = () => undefined;
  let giveListeners: (shared: SharedListeners) => void = () => undefined;
  const data = new Promise<unknown>((resolve) => {
    giveData = resolve;
  });
  const given = new Promise<SharedListeners>((resolve) => {
    giveListeners = resolve;
  });
  // The main process decides when this one drains and stops. A terminal or a service manager signals all processes.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.once('disconnect', () => process.exit());
  process.on('message', (message: ToApiProcess, handle: unknown) => {
    if ('data' in message) giveData(message.data);
    else if ('parcel' in message) takeParcel(message.parcel as Parcel);
    else if ('line' in message) for (const take of takers.get(message.line) ?? []) take(message.message);
    else if ('listener' in message && handle instanceof Server) {
      listeners[message.listener] = handle;
      if (Object.keys(listeners).length === message.of) giveListeners({ listeners, release: message.release });
    }
  });
  const send = (message: WorkerMessage) => void process.send?.(message);
  return {
    data,
    listeners: given,
    busLine: {
      send: (parcel) => send({ kind: 'parcel', parcel }),
      onParcel(take) {
        takeParcel = take;
      },
      async close() {},
    },
    openLine: (name, take) => ({
      post: (message) => send({ kind: 'line', name, message }),
      close: addTaker(takers, name, take),
    }),
    handOver({ listener, socket, bytes }) {
      // Node would otherwise ask the main process for this connection when the listener closes.
      (socket as { server?: unknown }).server = undefined;
      const message = { kind: 'socket', listener, bytes } satisfies WorkerMessage;
      // Only the object is left here; it counts as a connection until it is destroyed.
      process.send?.(message, socket, {}, () => socket.destroy());
    },
  };
}

/** The returned function removes it. */
function addTaker(takers: Map<string, Set<Take>>, name: string, take: Take): () => void {
  const known = takers.get(name) ?? new Set();
  known.add(take);
  takers.set(name, known);
  return () => void known.delete(take);
}
