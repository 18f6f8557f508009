import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { stringify, withSortedMembers } from '../../src/lib/json.ts';
import type { BankLevel } from '../../src/ports/chain.ts';
import {
  CLOCK_SYSVAR,
  RECENT_BLOCKHASHES_SYSVAR,
  SLOT_HASHES_SYSVAR,
  SYSTEM_PROGRAM,
} from '../../src/solana/programs.ts';
import { type AccountFormat, accountFormatOf, accountNotification } from './encode/account.ts';
import {
  accountConfig,
  type ContextConfig,
  invalidParams,
  logsConfig,
  logsFilter,
  type ParamReader,
  type ProgramAccountFilter,
  programAccountsConfig,
  pubkey,
  RPC,
  rpcError,
  signature,
  signatureSubscribeConfig,
  text,
  u64,
} from './encode/params.ts';
import type { LedgerBlock, LedgerListener, TransactionRecord } from './ledger/state.ts';
import type { LocalNode } from './rpc/method.ts';
import {
  type AccountView,
  accountViewOf,
  bankSlotOf,
  isSince,
  type Maybe,
  readParams,
  type Values,
  viewAt,
} from './rpc/method.ts';
import { type AccountMatch, filtersOf, parseContext } from './rpc/methods-accounts.ts';
import { signatureStatusOf } from './rpc/methods-blocks.ts';
import {
  failure,
  parseBody,
  parseError,
  type RpcRequest,
  type RpcResponse,
  readRpcRequest,
  requestIdOf,
} from './rpc/server.ts';

import type { VmAccount } from './vm/vm.ts';

const MAX_MESSAGE_BYTES = 1024 * 1024;
const MAX_QUEUED_MESSAGES = 10_000;
const MAX_SUBSCRIPTIONS = 10_000;
const TRY_AGAIN_LATER = 1013;
const NORMAL = 1000;
const ABNORMAL = 1006;
const GOODBYE_MS = 250;

/** Forwards, changes or drops a notification: the hook for faults. */
export type NotificationFilter = (kind: string, text: string, socket: WebSocket, send: (text: string) => void) => void;

export type LocalSockets = ReturnType<typeof createLocalSockets>;

/** WebSocket side of the node: subscriptions only, as on a real node. */
export interface SocketHooks {
  readonly filter: NotificationFilter;
  answersPing(): boolean;
  /** Throws the error of a subscription that the node does not have. */
  check(topic: Topic): void;
  /** The only method besides subscriptions that a node supports here. */
  version(params: unknown): unknown;
}

export function createLocalSockets(publisher: Publisher, { filter, answersPing, check, version }: SocketHooks) {
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    autoPong: false,
  });
  let nextId = 0;
  server.on('connection', (socket) => {
    const live = new Map<number, TopicSubscription>();
    /** Numbers of the live ones by `identityOf`: calls whose values are equal are one. */
    const numbers = new Map<string, number>();
    const send = boundedSend(socket);
    const end = (id: number): boolean => {
      const subscription = live.get(id);
      if (subscription === undefined) return false;
      publisher.remove(subscription);
      numbers.delete(identityOf(subscription.topic));
      return live.delete(id);
    };
    function subscribe(request: RpcRequest, later: (() => void)[]): number {
      const topic = topicOf(request.method, request.params);
      if (topic === null) throw rpcError(RPC.methodNotFound, 'Method not found');
      check(topic);
      if (live.size >= MAX_SUBSCRIPTIONS) {
        throw rpcError(RPC.internal, 'Internal Error: Subscription refused. Node subscription limit reached');
      }
      const identity = identityOf(topic);
      const known = numbers.get(identity);
      if (known !== undefined) return known;
      const id = nextId++;
      const method = `${topic.kind}Notification`;
      const subscription: TopicSubscription = {
        topic,
        notify: (result) =>
          filter(topic.kind, stringify({ jsonrpc: '2.0', method, params: { result, subscription: id } }), socket, send),
        finish: () => void end(id),
      };
      live.set(id, subscription);
      numbers.set(identity, id);
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
        const request = readRpcRequest(item);
        const result = run(request, later);
        return request.isNotification ? [] : [{ jsonrpc: '2.0', result, id: request.id }];
      } catch (error) {
        return [failure(requestIdOf(item), error)];
      }
    }
    socket.on('message', (data) => {
      const body = parseBody(String(data));
      if (body === undefined) return send(stringify(failure(null, parseError())));
      const later: (() => void)[] = [];
      const answers = (Array.isArray(body) ? body : [body]).flatMap((item) => answer(item, later));
      if (answers.length > 0) send(stringify(Array.isArray(body) ? answers : answers[0]));
      // The client must have the id before the first notification with it.
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
    /** Closes with a code that clients accept as final, and waits for their answer for a short time. */
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

/** A client that reads too slowly is closed with a code that makes it reconnect, instead of filling the memory. */
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

/** One live subscription; `notify` gets the `result` of the notification. */
export interface TopicSubscription {
  readonly topic: Topic;
  notify(result: unknown): void;
  /** Ends it from this side (a signature that was reached). */
  finish(): void;
}

const GONE: VmAccount = {
  lamports: 0n,
  data: new Uint8Array(0),
  owner: SYSTEM_PROGRAM,
  ownerBytes: new Uint8Array(32),
  executable: false,
  rentEpoch: 0n,
};
const RANK: Readonly<Record<string, number>> = { processed: 0, confirmed: 1, finalized: 2 };
/** Accounts that every slot changes. */
const SLOT_SYSVARS = [CLOCK_SYSVAR, SLOT_HASHES_SYSVAR, RECENT_BLOCKHASHES_SYSVAR];

export type Publisher = ReturnType<typeof createPublisher>;

/**
 * Turns events of the ledger into notifications, with the timing of a node: `processed` ones when the slot is complete, an
 * account once per slot however often it was written, `confirmed` ones when the next slot is open.
 */
export function createPublisher(node: LocalNode) {
  const subscriptions = new Set<TopicSubscription>();
  const each = <K extends Topic['kind']>(
    kind: K,
    run: (topic: Extract<Topic, { kind: K }>, subscription: TopicSubscription) => void,
  ): void => {
    for (const subscription of subscriptions) {
      if (subscription.topic.kind === kind) run(subscription.topic as Extract<Topic, { kind: K }>, subscription);
    }
  };
  const send = createSender(node, each);
  const timestamp = () => node.bank.pending.time * 1000;
  const update = (fields: object) =>
    each('slotsUpdates', (_topic, to) => to.notify({ ...fields, timestamp: timestamp() }));
  let unconfirmed: LedgerBlock | null = null;

  const listener: LedgerListener = {
    slotOpened(slot, parent) {
      each('slot', (_topic, to) => to.notify({ parent, root: bankSlotOf(node.bank, 'finalized'), slot }));
      update({ type: 'createdBank', parent, slot });
      const block = unconfirmed;
      unconfirmed = null;
      if (block === null) return;
      send.block(block, 'confirmed');
      update({ type: 'optimisticConfirmation', slot: block.slot });
    },
    executed: (record) => send.received(record),
    sealed(block) {
      send.block(block, 'processed');
      update({ type: 'frozen', slot: block.slot, stats: frozenStats(block.records) });
      update({ type: 'completed', slot: block.slot });
      // A block that becomes final at once forgets which accounts it wrote.
      unconfirmed = { ...block, written: new Set(block.written) };
    },
    finalized(block) {
      each('root', (_topic, to) => to.notify(block.slot));
      update({ type: 'root', slot: block.slot });
      send.block(block, 'finalized');
    },
    accountSet(key) {
      for (const commitment of ['processed', 'confirmed', 'finalized'] as const) {
        send.accounts([key], commitment, accountViewOf(node.bank, commitment));
      }
    },
    rolledBack() {
      unconfirmed = null;
    },
  };
  return {
    listener,
    add(subscription: TopicSubscription): void {
      subscriptions.add(subscription);
      const { topic } = subscription;
      if (topic.kind === 'signature') send.ifReached(topic.signature, topic.commitment, subscription);
    },
    remove: (subscription: TopicSubscription): void => void subscriptions.delete(subscription),
  };
}

type Each = <K extends Topic['kind']>(
  kind: K,
  run: (topic: Extract<Topic, { kind: K }>, subscription: TopicSubscription) => void,
) => void;

function createSender(node: LocalNode, each: Each) {
  /** Before Agave 4.4 notifications carry the whole account: `dataSlice` is only part of what a subscription is. */
  const notified = (format: AccountFormat) => (isSince(node, '4.4') ? format : { ...format, slice: null });
  const inSlot = (slot: number, value: unknown) => ({ context: { slot }, value });
  function signature(record: TransactionRecord, to: TopicSubscription): void {
    to.notify(inSlot(record.slot, { err: record.meta.err }));
    to.finish();
  }

  function logs({ signature: id, slot, keys, meta }: TransactionRecord, commitment: BankLevel): void {
    // A transaction that was not run has no logs.
    each('logs', (topic, to) => {
      if (topic.commitment !== commitment || meta.logMessages === null) return;
      if (topic.mentions !== null && !keys.includes(topic.mentions)) return;
      to.notify(inSlot(slot, { signature: id, err: meta.err, logs: meta.logMessages ?? [] }));
    });
  }

  function accounts(keys: Iterable<string>, commitment: BankLevel, view: AccountView): void {
    for (const key of keys) {
      const context = parseContext(node, view, key);
      each('account', (topic, to) => {
        if (topic.commitment !== commitment || topic.key !== key) return;
        to.notify(inSlot(view.slot, accountNotification(view.get(key) ?? GONE, notified(topic.format), context)));
      });
      each('program', (topic, to) => {
        if (topic.commitment !== commitment) return;
        const account = view.get(key);
        if (account === null || account.owner !== topic.program || !topic.matches(account)) return;
        to.notify(
          inSlot(view.slot, { pubkey: key, account: accountNotification(account, notified(topic.format), context) }),
        );
      });
    }
  }

  return {
    accounts,
    block(block: LedgerBlock, commitment: BankLevel): void {
      const view = viewAt(node.bank, block.slot, true);
      for (const item of block.records) logs(item, commitment);
      accounts(block.written, commitment, view);
      accounts(SLOT_SYSVARS, commitment, view);
      for (const item of block.records) {
        each('signature', (topic, to) => {
          if (topic.commitment === commitment && topic.signature === item.signature) signature(item, to);
        });
      }
    },
    received({ signature: id, slot }: TransactionRecord): void {
      each('signature', (topic, to) => {
        if (topic.announces && topic.signature === id) to.notify(inSlot(slot, 'receivedSignature'));
      });
    },
    /** Handles a client that subscribes after the transaction was processed. */
    ifReached(id: string, commitment: BankLevel, to: TopicSubscription): void {
      const item = node.bank.state.record(id);
      const reached = signatureStatusOf(node, item)?.confirmationStatus;
      if (item !== undefined && reached !== undefined && RANK[reached]! >= RANK[commitment]!) signature(item, to);
    },
  };
}

function frozenStats(records: readonly TransactionRecord[]) {
  const failed = records.filter((record) => record.meta.err !== null).length;
  return {
    numTransactionEntries: records.length,
    numSuccessfulTransactions: records.length - failed,
    numFailedTransactions: failed,
    maxTransactionsPerEntry: records.length,
  };
}

interface WithCommitment {
  readonly commitment: BankLevel;
}

/** The topic of a subscription. */
export type Topic =
  | { readonly kind: 'slot' | 'root' | 'slotsUpdates' | 'vote' }
  | ({ readonly kind: 'logs'; readonly filter: string; readonly mentions: string | null } & WithCommitment)
  | ({ readonly kind: 'signature'; readonly signature: string; readonly announces: boolean } & WithCommitment)
  | ({ readonly kind: 'account'; readonly key: string; readonly format: AccountFormat } & WithCommitment)
  | ({
      readonly kind: 'program';
      readonly program: string;
      readonly format: AccountFormat;
      readonly filters: readonly ProgramAccountFilter[] | null;
      readonly withContext: boolean;
      readonly matches: AccountMatch;
    } & WithCommitment);

type TopicReader = (params: unknown) => Topic;

const READERS: Readonly<Record<string, TopicReader>> = {
  slotSubscribe: topic([], [], () => ({ kind: 'slot' })),
  rootSubscribe: topic([], [], () => ({ kind: 'root' })),
  slotsUpdatesSubscribe: topic([], [], () => ({ kind: 'slotsUpdates' })),
  // Votes are no transactions with Alpenglow: nothing is ever told.
  voteSubscribe: topic([], [], () => ({ kind: 'vote' })),
  logsSubscribe: topic([logsFilter], [logsConfig], (filter, config) => {
    const keys = filter.kind === 'mentions' ? filter.content : [];
    if (filter.kind === 'mentions' && keys.length !== 1) {
      throw invalidParams('Invalid Request: Only 1 address supported');
    }
    const mentions = keys[0] === undefined ? null : checked(pubkey, keys[0], 'mentions');
    return { kind: 'logs', filter: filter.kind, mentions, commitment: commitmentOf(config) };
  }),
  signatureSubscribe: topic([text], [signatureSubscribeConfig], (id, config) => ({
    kind: 'signature',
    signature: checked(signature, id, 'signature'),
    announces: config?.enableReceivedNotification === true,
    commitment: commitmentOf(config),
  })),
  accountSubscribe: topic([text], [accountConfig], (address, config) => ({
    kind: 'account',
    key: checked(pubkey, address, 'pubkey'),
    format: accountFormatOf(config),
    commitment: commitmentOf(config),
  })),
  programSubscribe: topic([text], [programAccountsConfig], (address, config) => ({
    kind: 'program',
    filters: config?.filters ?? null,
    withContext: config?.withContext ?? false,
    matches: programFilters(config?.filters),
    program: checked(pubkey, address, 'pubkey'),
    format: accountFormatOf(config),
    commitment: commitmentOf(config),
  })),
};

function topic<const R extends readonly ParamReader<unknown>[], const O extends readonly ParamReader<unknown>[]>(
  required: R,
  optional: O,
  make: (...values: [...Values<R>, ...Maybe<O>]) => Topic,
): TopicReader {
  return (params) => make(...(readParams(required, optional, params) as [...Values<R>, ...Maybe<O>]));
}

/** What a subscription is: equal texts for equal values (Agave 4.2.1, rpc_subscription_tracker.rs). */
function identityOf(topic: Topic): string {
  const { matches: _, ...values } = { matches: null, ...topic };
  return stringify(withSortedMembers(values));
}

/** Reads a subscribe call; null for other methods. Throws -32602. */
function topicOf(method: string, params: unknown): Topic | null {
  return Object.hasOwn(READERS, method) ? READERS[method]!(params) : null;
}

/** The subscription to end, of any kind; null for other calls. Throws -32602. */
function unsubscribedId(method: string, params: unknown): number | null {
  const known = method.endsWith('Unsubscribe') && Object.hasOwn(READERS, method.replace('Unsubscribe', 'Subscribe'));
  return known ? Number(readParams([u64], [], params)[0]) : null;
}

function commitmentOf(config: ContextConfig | undefined): BankLevel {
  return config?.commitment ?? 'finalized';
}

function checked(read: (value: string) => string, value: string, what: string): string {
  try {
    return read(value);
  } catch {
    throw invalidParams(`Invalid Request: Invalid ${what} provided`);
  }
}

function programFilters(filters: Parameters<typeof filtersOf>[0]): AccountMatch {
  try {
    return filtersOf(filters);
  } catch (error) {
    throw invalidParams(`Invalid params: ${(error as Error).message}`);
  }
}
