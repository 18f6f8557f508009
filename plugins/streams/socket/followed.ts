/** Subscriptions of websockets, in the thread that has the sockets. Equal ones of all clients are one subscription of the other thread. */
import type { FollowedSubscriber, FollowedSubscriptions, SocketCall, SocketRules } from '../../../src/plugin/host.ts';
import { type ChainReader, type Clock, type Log, messageOf, RpcError } from '../../../src/plugin/plugin.ts';
import { BUDGETS, type BudgetName, type Budgets, type Tenant } from '../../../src/ports/access.ts';
import type { ParsedTransactions } from '../../../src/ports/parsed-transactions.ts';
import type { OpenThreadLine } from '../../../src/ports/processes.ts';
import { placeOfNumber } from './feed.ts';
import { ENDED, LINE, type LineRequest, type Payer, type Tell, TRY_AGAIN } from './line.ts';
import { PARSED, readSocketRequest, type SocketRequest, servesFollowed } from './request.ts';

export interface FollowedOptions {
  readonly openLine: OpenThreadLine;
  readonly limits: { readonly maxAddresses: number; readonly maxParamsBytes: number };
  /** Null: no transactions are decoded. */
  readonly parsed: ParsedTransactions | null;
  /** Rules of the sockets that have subscriptions of parsed transactions. */
  readonly parsedRules: SocketRules;
  /** Why no block will come, or null. */
  readonly idle: () => string | null;
  readonly chain: ChainReader;
  readonly clock: Clock;
  readonly log: Log;
}

export interface FollowedFeeds extends FollowedSubscriptions {
  start(): void;
  stop(): void;
}

/** The other thread tells that it is there as soon as it has started, if there is one. */
const ANSWER_MS = 5_000;
/** A client may drop notifications that it reads together with the answer to its call. */
const PAUSE_MS = 50;

/** What one subscription of the other thread is for. */
interface JoinedSubscription {
  readonly id: number;
  /** The name under which further clients find it; null: a replay, or of one client. */
  readonly key: string | null;
  readonly ask: Extract<LineRequest, { ask: 'join' }>;
  readonly subscribers: Set<FollowedSubscriber>;
  isAccepted: boolean;
  cancelTimeout: () => void;
}

export function createFollowed({
  openLine,
  limits,
  parsed,
  parsedRules,
  idle,
  chain,
  clock,
  log,
}: FollowedOptions): FollowedFeeds {
  const all = new Map<number, JoinedSubscription>();
  const named = new Map<string, JoinedSubscription>();
  let nextId = 1;
  let isThere = false;
  let line: ReturnType<OpenThreadLine> | null = null;
  const ask = (message: LineRequest) => line?.post(message);

  function take(message: Tell): void {
    if (message.tell === 'here') {
      isThere = true;
      for (const shared of all.values()) ask(shared.ask);
      return;
    }
    const shared = all.get(message.id);
    if (shared === undefined) return;
    if (message.tell === 'accepted') accept(shared);
    else if (message.tell === 'data') handOn(shared, Buffer.from(message.bytes.buffer), message.ends);
    else if (message.tell === 'refused' && !shared.isAccepted) {
      const error = new RpcError(message.isBusy ? 'unavailable' : 'invalidParams', { details: message.details });
      end(shared, (one) => one.refused({ error }));
    } else {
      // What was accepted before is refused when the other thread has started anew.
      const code = message.tell === 'ended' ? message.code : ENDED;
      end(shared, (one) => one.lost({ code, reason: message.details }));
    }
  }

  function accept(shared: JoinedSubscription): void {
    shared.cancelTimeout();
    if (shared.isAccepted) return;
    shared.isAccepted = true;
    for (const one of [...shared.subscribers]) one.accepted();
    if (shared.ask.request.from !== null) clock.timeout(PAUSE_MS, () => ask({ ask: 'begin', id: shared.id }));
  }

  function handOn({ id, subscribers, ask: { request } }: JoinedSubscription, bytes: Buffer, ends: Uint32Array): void {
    let from = 0;
    for (const to of ends) {
      const notification = bytes.subarray(from, to);
      const place = placeOfNumber(notification);
      for (const one of subscribers) one.notified(notification, place, false);
      from = to;
    }
    const took = () => ask({ ask: 'took', id, bytes: bytes.length });
    if (request.from === null) took();
    else void Promise.all([...subscribers].map((one) => one.ready())).then(took);
  }

  function end(shared: JoinedSubscription, tell: (subscriber: FollowedSubscriber) => void): void {
    if (!all.delete(shared.id)) return;
    if (shared.key !== null) named.delete(shared.key);
    shared.cancelTimeout();
    for (const one of [...shared.subscribers]) tell(one);
    shared.subscribers.clear();
  }

  function share(key: string | null, request: SocketRequest, tenant: Tenant): JoinedSubscription {
    const id = nextId++;
    const shared: JoinedSubscription = {
      id,
      key,
      ask: { ask: 'join', id, key, request, payer: payerOf(tenant) },
      subscribers: new Set(),
      isAccepted: false,
      cancelTimeout: clock.timeout(ANSWER_MS, () => {
        if (isThere) return;
        const details = 'the role indexer, which has the blocks, does not run in this process';
        end(shared, (one) => one.refused({ error: new RpcError('unavailable', { details }) }));
        ask({ ask: 'leave', id });
      }),
    };
    all.set(id, shared);
    if (key !== null) named.set(key, shared);
    return shared;
  }

  function join(
    key: string | null,
    request: SocketRequest,
    subscriber: FollowedSubscriber,
    tenant: Tenant,
  ): () => void {
    const existing = key === null ? undefined : named.get(key);
    const shared = existing ?? share(key, request, tenant);
    shared.subscribers.add(subscriber);
    if (existing === undefined) ask(shared.ask);
    else if (shared.isAccepted) subscriber.accepted();
    return () => {
      shared.subscribers.delete(subscriber);
      if (shared.subscribers.size > 0 || !all.has(shared.id)) return;
      end(shared, () => undefined);
      ask({ ask: 'leave', id: shared.id });
    };
  }

  return {
    serves: ({ method, params }) => servesFollowed(method, params),
    maxParamsBytes: () => limits.maxParamsBytes,
    rules: ({ method }) => (method === PARSED ? parsedRules : null),
    subscribe(call: SocketCall, subscriber, tenant) {
      const refuse = (error: RpcError) => {
        subscriber.refused({ error });
        return () => undefined;
      };
      const why = idle();
      if (why !== null) return refuse(new RpcError('unavailable', { details: why }));
      let request: SocketRequest;
      try {
        request = readSocketRequest(call.method, call.params, { maxAddresses: limits.maxAddresses, parsed });
      } catch (error) {
        if (error instanceof RpcError) return refuse(error);
        throw error;
      }
      if (request.kind !== 'account')
        return join(request.from === null ? subscriptionKey(call, request, tenant) : null, request, subscriber, tenant);
      const account = watchAccount({ request, subscriber, tenant, chain, clock, log });
      const leave = join(null, request, account, tenant);
      return () => {
        account.close();
        leave();
      };
    },
    start() {
      line = openLine(LINE, (message) => {
        const told = message as LineRequest | Tell;
        if ('tell' in told) take(told);
      });
      ask({ ask: 'who' });
    },
    stop() {
      for (const shared of [...all.values()]) end(shared, (one) => one.lost());
      line?.close();
    },
  };
}

/** Equal for equal subscriptions. A project may have interfaces of its own, and then decodes other than the rest. */
function subscriptionKey({ method, paramsText }: SocketCall, { kind }: SocketRequest, tenant: Tenant): string {
  const who = kind === 'parsed' ? tenant.id : '';
  return `${method} ${who} ${paramsText ?? '[]'}`;
}

/** The tenant as plain data, which another thread can receive. */
function payerOf(tenant: Tenant): Payer | null {
  if (tenant === undefined) return null;
  const names = Object.keys(BUDGETS) as BudgetName[];
  return { id: tenant.id, budgets: Object.fromEntries(names.map((name) => [name, tenant.limit(name)])) as Budgets };
}

interface AccountOptions {
  readonly request: Extract<SocketRequest, { kind: 'account' }>;
  readonly subscriber: FollowedSubscriber;
  readonly tenant: Tenant;
  readonly chain: ChainReader;
  readonly clock: Clock;
  readonly log: Log;
}

interface Write {
  readonly slot: number;
  readonly transactionIndex: number;
}

const RETRY_MS = 250;
const MAX_TRIES = 20;

/**
 * Blocks tell which transactions write an account, not what they write: its state is read from an upstream, at the slot of the newest
 * write or later. Of writes that follow each other faster than it is read, only the last state is told.
 */
function watchAccount({ request, subscriber, tenant, chain, clock, log }: AccountOptions) {
  let isOver = false;
  let isReading = false;
  let newest: Write | null = null;
  let cancel = () => {};

  async function read(write: Write, tries: number): Promise<void> {
    const { address, level: commitment, options } = request;
    try {
      const asked = [address, { ...options, commitment, minContextSlot: write.slot }];
      const text = await chain.callText('getAccountInfo', asked, { tenant });
      if (isOver) return;
      isReading = false;
      tell(write, text);
    } catch (error) {
      if (isOver) return;
      if (tries < MAX_TRIES) {
        cancel = clock.timeout(RETRY_MS, () => void read(newest ?? write, tries + 1));
        return;
      }
      log.warn({ error: messageOf(error), slot: write.slot }, 'an account cannot be read for its subscription');
      isOver = true;
      subscriber.lost({ code: TRY_AGAIN, reason: 'the account cannot be read, try again later' });
    }
  }

  function tell(write: Write, text: string): void {
    const { slot } = (JSON.parse(text) as { readonly context: { readonly slot: number } }).context;
    const at = newest !== null && newest.slot <= slot ? newest : write;
    if (newest !== null && newest.slot <= slot) newest = null;
    // The members of the node's answer, and the newest write that its state has.
    const result = `${text.trimEnd().slice(0, -1)},"position":{"slot":${at.slot},"transactionIndex":${at.transactionIndex}}}`;
    const notification = Buffer.from(
      `{"jsonrpc":"2.0","method":"accountNotification","params":{"subscription":0,"result":${result}}}`,
    );
    subscriber.notified(notification, placeOfNumber(notification), false);
    if (newest !== null) start(newest);
  }

  function start(write: Write): void {
    isReading = true;
    newest = null;
    void read(write, 1);
  }

  return {
    ...subscriber,
    notified(bytes: Buffer) {
      if (isOver) return;
      const write = (JSON.parse(bytes.toString()) as { readonly params: { readonly result: Write } }).params.result;
      if (isReading) newest = write;
      else start(write);
    },
    close() {
      isOver = true;
      cancel();
    },
  };
}
