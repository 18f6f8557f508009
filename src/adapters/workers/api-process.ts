/**
 * The lines between the main process and further processes of the API. Both ends are here. All of it goes over the channel that Node opens
 * between parent and child.
 */
import type { ApiPeers, HandedSocket, ListenHandle, SharedListeners } from '../../ports/processes.ts';
import type { BusLine } from '../bus/postgres-line.ts';
import { fromErrorData, type PeerMessage, type ToApiProcess, toErrorData, type WorkerMessage } from './wire.ts';

type Parcel = Parameters<BusLine['send']>[0];
type PeerQuestion = Extract<PeerMessage, { readonly ask: number }>;

/** One end of a line to another process. */
interface PeerEnd {
  ask(to: PeerQuestion['to'], topic: string, message: unknown): Promise<unknown>;
  take(messages: readonly PeerMessage[]): void;
  /** The other process has ended: what was asked gets no answer. */
  lost(): void;
}

/** Messages of one turn of the event loop are sent together. */
function createPeerEnd(
  post: (messages: readonly PeerMessage[]) => void,
  answer: (question: PeerQuestion) => unknown,
): PeerEnd {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let unsent: PeerMessage[] = [];
  let nextId = 1;
  const send = (message: PeerMessage): void => {
    if (unsent.push(message) > 1) return;
    setImmediate(() => {
      const messages = unsent;
      unsent = [];
      post(messages);
    });
  };
  const reply = async (question: PeerQuestion): Promise<void> => {
    try {
      send({ answered: question.ask, value: await answer(question) });
    } catch (error) {
      send({ refused: question.ask, error: toErrorData(error) });
    }
  };
  return {
    ask: (to, topic, message) =>
      new Promise((resolve, reject) => {
        const id = nextId++;
        waiting.set(id, { resolve, reject });
        send({ ask: id, to, topic, message });
      }),
    take(messages) {
      for (const message of messages) {
        if ('ask' in message) {
          void reply(message);
          continue;
        }
        const id = 'answered' in message ? message.answered : message.refused;
        const asker = waiting.get(id);
        waiting.delete(id);
        if ('answered' in message) asker?.resolve(message.value);
        else asker?.reject(fromErrorData(message.error));
      }
    },
    lost() {
      for (const { resolve } of waiting.values()) resolve(undefined);
      waiting.clear();
    },
  };
}

/** What this process answers, by topic. */
function createAnswers() {
  const byTopic = new Map<string, (message: unknown) => unknown>();
  return {
    add: (topic: string, fn: (message: unknown) => unknown) => void byTopic.set(topic, fn),
    of: (topic: string, message: unknown): unknown => byTopic.get(topic)?.(message),
  };
}

/** In the main process: the centre of the lines. Questions to all others pass through it. */
export interface ApiHub {
  readonly peers: ApiPeers;
  /** A process has started. Returns what takes its messages, and what is called at its end. */
  join(post: (messages: readonly PeerMessage[]) => void): Pick<PeerEnd, 'take' | 'lost'>;
}

export function createApiHub(count: number, name: string): ApiHub {
  const answers = createAnswers();
  const ends = new Set<PeerEnd>();
  async function askAll(topic: string, message: unknown, except: PeerEnd | null): Promise<readonly unknown[]> {
    const asked = [...ends].filter((end) => end !== except).map((end) => end.ask('main', topic, message));
    const values = await Promise.all(except === null ? asked : [answers.of(topic, message), ...asked]);
    return values.filter((value) => value !== undefined);
  }
  return {
    peers: {
      count,
      name,
      isMain: true,
      answer: answers.add,
      askOthers: (topic, message) => askAll(topic, message, null),
      askMain: () => Promise.reject(new TypeError('this is the main process')),
    },
    join(post) {
      const end = createPeerEnd(post, ({ to, topic, message }) =>
        to === 'main' ? answers.of(topic, message) : askAll(topic, message, end),
      );
      ends.add(end);
      return {
        take: end.take,
        lost() {
          ends.delete(end);
          end.lost();
        },
      };
    },
  };
}

/** The bus over the lines. */
export function peersLine({ askOthers, answer }: Pick<ApiPeers, 'askOthers' | 'answer'>): BusLine {
  return {
    send: (parcel) => void askOthers('bus', parcel).catch(() => undefined),
    onParcel: (take) => answer('bus', (parcel) => take(parcel as Parcel)),
    async close() {},
  };
}

/** In a further process: its input and its lines to the main process. */
export interface Parent {
  readonly data: Promise<unknown>;
  /** To be called when this process listens to commands. */
  loaded(): void;
  peersOf(count: number, name: string): ApiPeers;
  /** Once the main process has passed them. */
  readonly listeners: Promise<SharedListeners>;
  handOver(handed: HandedSocket): void;
}

/** It ends this process when the main process has ended. */
export function joinParent(): Parent {
  const answers = createAnswers();
  const listeners: ListenHandle[] = [];
  let giveData: (data: unknown) => void = () => undefined;
  let giveListeners: (shared: SharedListeners) => void = () => undefined;
  const data = new Promise<unknown>((resolve) => {
    giveData = resolve;
  });
  const given = new Promise<SharedListeners>((resolve) => {
    giveListeners = resolve;
  });
  const send = (message: WorkerMessage) => void process.send?.(message);
  const end = createPeerEnd(
    (peers) => send({ kind: 'peers', peers }),
    ({ topic, message }) => answers.of(topic, message),
  );
  // The main process decides when this one drains and stops. A terminal or a service manager signals all processes.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.once('disconnect', () => process.exit());
  process.on('message', (message: ToApiProcess, handle: unknown) => {
    if ('data' in message) giveData(message.data);
    else if ('peers' in message) end.take(message.peers);
    else if ('listener' in message && typeof handle === 'object' && handle !== null) {
      listeners[message.listener] = handle;
      if (Object.keys(listeners).length === message.of) giveListeners({ listeners, release: message.release });
    }
  });
  return {
    data,
    loaded: () => send({ kind: 'loaded' }),
    listeners: given,
    peersOf: (count, name) => ({
      count,
      name,
      isMain: false,
      answer: answers.add,
      askOthers: async (topic, message) => (await end.ask('others', topic, message)) as readonly unknown[],
      askMain: (topic, message) => end.ask('main', topic, message),
    }),
    handOver({ listener, socket, bytes }) {
      // Node would otherwise ask the main process for this connection when the listener closes.
      (socket as { server?: unknown }).server = undefined;
      // What this process read from now on would be lost: Node goes on reading until the main process has the connection.
      (socket as { readonly _handle?: { readStop?(): void } | null })._handle?.readStop?.();
      const message = { kind: 'socket', listener, bytes } satisfies WorkerMessage;
      // Only the object is left here; it counts as a connection until it is destroyed.
      process.send?.(message, socket, {}, () => socket.destroy());
    },
  };
}
