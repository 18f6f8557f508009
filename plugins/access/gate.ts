import { createLru } from '../../src/lib/lru.ts';
import { createRightsWatch } from '../../src/lib/rights-watch.ts';
import type { Admission, Credentials, Gate, GateItem, StayingClient, Watched } from '../../src/plugin/host.ts';
import {
  type Caller,
  type Clock,
  derived,
  GateRefusal,
  type Log,
  type Metrics,
  type Price,
  type Store,
} from '../../src/plugin/plugin.ts';
import type { ApiPeers } from '../../src/ports/processes.ts';
import { networkOf } from '../../src/runtime/network-address.ts';
import { isPromise } from '../../src/runtime/waiting.ts';
import { type Account, affordable, isMetered, turnDay } from './account.ts';
import type { AccessConfig } from './config.ts';
import { type CreditLoan, lendCredits } from './credits.ts';
import {
  createNetworks,
  type Directory,
  findRights,
  type KeyRights,
  type KeyRules,
  type KnownKey,
  readRules,
} from './directory.ts';
import { isKeyForm, keyName } from './keys.ts';
import type { Meter, ProjectMetrics } from './meter.ts';
import type { BatchLimits, Limits, Plans } from './plans.ts';
import {
  type Buckets,
  borrowRates,
  createGuessBrake,
  type Demand,
  type FindBuckets,
  lendRates,
  overdraw,
  type RateLimits,
  takeTokens,
} from './rates.ts';
import { countCall } from './write-batch.ts';

interface GateParts {
  readonly store: Store;
  readonly directory: Directory;
  readonly meter: Pick<Meter, 'note'>;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly perProject: Pick<ProjectMetrics, 'rateLimited'>;
  readonly log: Log;
  readonly config: AccessConfig;
  /** The other processes of the API; null: there are none. */
  readonly peers: ApiPeers | null;
  /** Where this process gets the credits of calls from; null: it knows what is left. */
  readonly creditLoan: CreditLoan | null;
  readonly plans: () => Pick<Plans, 'limitsOf'>;
}

/** The limits of a caller. */
interface Session {
  readonly account: Account;
  /** Null: a caller without a key. */
  readonly key: KnownKey | null;
  readonly rules: KeyRules | null;
  /** Rates of this caller only, instead of the project's. */
  readonly own: Anonymous | null;
  /** Client of a long-lived caller: its key must stay allowed for this client. */
  readonly client: StayingClient | null;
}

interface AccessGate extends Gate {
  watch: NonNullable<Gate['watch']>;
  callerOf: NonNullable<Gate['callerOf']>;
  /** To be called when a project or one of its keys has changed. */
  changed(projectId: string): void;
  stop(): void;
}

/** Upper bound of Retry-After until the next credit cycle: longer waits overflow the timers of clients. */
const MAX_RETRY_S = 86_400;
const ADMIN_GROUP = 'admin';
/** How often the keys of long-lived callers are checked; a command next to a daemon on SQLite cannot send a hint. */
const LOOK_MS = 500;
const OWN_DEMAND: Demand = { groups: ['address'], counts: null };

/**
 * Authenticates callers and admits calls: permission and plan of each item, then credits, then the rate of all items together. It does
 * not reveal whether a wrong key is unknown, revoked or expired. Cached keys need no promise.
 */
export function createGate(parts: GateParts): AccessGate {
  const { directory, clock, config, store, log } = parts;
  const refusals = parts.metrics.counter('refused_total', 'calls that the gate refused, by reason', ['reason']);
  const slowed = parts.metrics.counter('guesses_slowed_total', 'delayed answers to wrong keys');
  const brake = createGuessBrake(
    clock,
    () => config.badKeysPerMinute,
    () => slowed.add(),
  );
  const strangers = createAnonymous(config.anonymous, directory);
  const anonymous = strangers.find;
  const { peers } = parts;
  const loan = peers === null || peers.isMain ? null : borrowRates(peers, clock);
  const { creditLoan } = parts;
  const sessions = new WeakMap<Caller, Session>();
  const rights = createRightsWatch<KeyRights>({
    clock,
    everyMs: LOOK_MS,
    read: (keyIds) => findRights(store, keyIds),
    failed: (error) => log.warn({ err: error }, 'cannot check the keys of open connections'),
  });

  const refuse = (refusal: GateRefusal): never => {
    refusals.with(refusal.reason).add();
    throw refusal;
  };
  const refuseRate = ({ projectId }: Account, refusal: GateRefusal): never => {
    parts.perProject.rateLimited(projectId);
    return refuse(refusal);
  };

  function accept(key: KnownKey, { origin }: Credentials, address: string): Caller {
    const { rules, caller } = key;
    const refusal = refusalOf(key, address, origin);
    if (refusal !== null) return refuse(refusal);
    if (!sessions.has(caller)) sessions.set(caller, { account: key.account, key, rules, own: null, client: null });
    return caller;
  }

  /** Why an existing key may not be used now by this client; null if it may. */
  function refusalOf(
    { rules, expiresAt }: Pick<KnownKey, 'rules' | 'expiresAt'>,
    address: string,
    origin: string | undefined,
  ): GateRefusal | null {
    if (expiresAt !== null && expiresAt <= clock.now()) return new GateRefusal('bad-key');
    if (rules.allowsAddress !== null && !rules.allowsAddress(address)) return new GateRefusal('ip');
    if (rules.allowsOrigin !== null && !rules.allowsOrigin(origin))
      return new GateRefusal('permission', { details: 'Origin not allowed for this API key' });
    return null;
  }

  async function lookUp(name: string, address: string): Promise<KnownKey> {
    const ask = () => directory.ask(name);
    try {
      // Wrong keys from the same address must not block a key that was valid before.
      return await (directory.isFamiliar(name) ? ask() : brake.look(address, ask));
    } catch (error) {
      if (!(error instanceof GateRefusal)) throw error;
      await brake.wrong(address).catch(refuse);
      return refuse(error);
    }
  }

  async function acceptAnonymous(address: string): Promise<Caller> {
    const found = await anonymous(address);
    if (found === null) return refuse(new GateRefusal('no-key'));
    sessions.set(found.caller, { account: found.account, key: null, rules: null, own: found, client: null });
    return found.caller;
  }

  function authenticate(credentials: Credentials, address: string): Caller | Promise<Caller> {
    const key = presentedKey(credentials);
    if (key === null)
      return config.anonymous.projectId === null ? refuse(new GateRefusal('no-key')) : acceptAnonymous(address);
    if (!isKeyForm(key)) return refuse(new GateRefusal('bad-key'));
    const name = keyName(key);
    const known = directory.known(name);
    if (known !== undefined) return accept(known, credentials, address);
    return lookUp(name, address).then((found) => accept(found, credentials, address));
  }

  function admit(caller: Caller, items: readonly GateItem[]): Admission | Promise<Admission> {
    const session = sessions.get(caller);
    if (session === undefined) return refuse(new GateRefusal('bad-key'));
    const { key } = session;
    if (key === null || directory.isCurrent(key)) return admitNow(session, items);
    // Possibly long after authentication: a websocket, or a slow body.
    const known = directory.known(key.name);
    if (known !== undefined) return admitNow(renew(caller, known), items);
    return directory.ask(key.name).then((found) => admitNow(renew(caller, found), items));
  }

  function renew(caller: Caller, key: KnownKey): Session {
    const client = sessions.get(caller)?.client ?? null;
    const isExpired = key.expiresAt !== null && key.expiresAt <= clock.now();
    // The client of a request was checked at its start; that of a socket must be checked repeatedly.
    const refusal =
      client !== null
        ? refusalOf(key, client.remoteAddress, client.origin)
        : isExpired
          ? new GateRefusal('bad-key')
          : null;
    if (refusal !== null) return refuse(refusal);
    const session: Session = { account: key.account, key, rules: key.rules, own: null, client };
    sessions.set(caller, session);
    return session;
  }

  function watch(
    caller: Caller,
    client: StayingClient,
    onRefused: (refusal: GateRefusal) => void,
    onPlan?: () => void,
  ): Watched {
    const session = sessions.get(caller);
    if (session === undefined) return { caller, end: () => undefined };
    if (session.key === null || caller.keyId === null)
      return session.own === null ? { caller, end: () => undefined } : watchAnonymous(caller, client, onRefused);
    const own = { ...caller };
    sessions.set(own, { ...session, client });
    const judge = createJudge(session.key.rules);
    let { plan } = caller;
    const end = rights.add(caller.keyId, (row) => {
      const refusal = row === null ? new GateRefusal('bad-key') : judge(row, client);
      if (refusal === null) {
        if (row === null || row.plan === plan) return;
        plan = row.plan;
        onPlan?.();
        return;
      }
      end();
      sessions.delete(own);
      refusals.with(refusal.reason).add();
      onRefused(refusal);
    });
    return { caller: own, end };
  }

  /** Calls without a key end with their project, or when a reload takes their network off the list. */
  function watchAnonymous(
    caller: Caller,
    { remoteAddress }: StayingClient,
    onRefused: (refusal: GateRefusal) => void,
  ): Watched {
    const own = { ...caller };
    const session = sessions.get(caller);
    if (session !== undefined) sessions.set(own, session);
    let isOver = false;
    let cancel = clock.timeout(LOOK_MS, look);
    function look(): void {
      void anonymous(remoteAddress)
        .then((found) => found?.caller.projectId === caller.projectId)
        // The store cannot be asked: rights stay as they were.
        .catch(() => true)
        .then((isAllowed) => {
          if (isOver) return;
          if (isAllowed) {
            cancel = clock.timeout(LOOK_MS, look);
            return;
          }
          isOver = true;
          sessions.delete(own);
          const refusal = new GateRefusal('no-key');
          refusals.with(refusal.reason).add();
          onRefused(refusal);
        });
    }
    return {
      caller: own,
      end() {
        isOver = true;
        cancel();
      },
    };
  }

  /** Checks a key by its row; its lists are parsed again only if they changed. */
  function createJudge(first: KeyRules): (row: KeyRights, client: StayingClient) => GateRefusal | null {
    let text = '';
    let rules = first;
    return (row, { remoteAddress, origin }) => {
      const now = JSON.stringify([row.permissions, row.cidrs, row.origins]);
      if (now !== text) rules = readRules(row);
      text = now;
      // Open connections were admitted with the earlier permissions.
      if (isNarrower(rules.permissions, first.permissions)) return new GateRefusal('permission');
      return refusalOf({ rules, expiresAt: row.expires_at }, remoteAddress, origin);
    };
  }

  async function callerOf(projectId: string): Promise<Caller> {
    const account = await directory.project(projectId);
    if (account === null || account.isDisabled) return refuse(new GateRefusal('bad-key'));
    const { plan, budgets } = account.limits;
    const caller: Caller = { projectId, keyId: null, plan, wallet: null, budgets };
    sessions.set(caller, { account, key: null, rules: null, own: null, client: null });
    return caller;
  }

  function admitNow(session: Session, items: readonly GateItem[]): Admission | Promise<Admission> {
    const { account, rules } = session;
    const { limits } = account;
    const refused = items.length > 1 ? batchRefusal(items, limits.batch) : null;
    if (refused !== null) return refuse(refused);
    for (let i = 0; i < items.length; i += 1) {
      const refusal = itemRefusal(items[i] as GateItem, i, rules, limits);
      if (refusal !== null) return refuse(refusal);
    }
    const first = items[0]?.price;
    if (first !== undefined && first.groups[0] === ADMIN_GROUP) return admitAdmin(session);
    const credits = items.length === 1 ? (first?.credits ?? 0) : creditsOf(items);
    const checkCredits = (): boolean => {
      const unixMs = clock.now();
      turnDay(account, unixMs);
      if (credits === 0 || credits <= affordable(account)) return false;
      if (items.length === 1 && first?.neverRefused === true) return true;
      return refuse(new GateRefusal('credits', { retryAfterS: secondsUntil(account.cycle.endMs, unixMs) }));
    };
    const finish = (headers: Admission['headers'], isWaived: boolean): Admission =>
      createAdmission(
        { account, items, headers, reserved: isWaived ? 0 : credits, isWaived },
        clock.now,
        parts.meter.note,
      );
    if (creditLoan !== null && credits > 0 && isMetered(account)) {
      const taken = creditLoan.take(account.projectId, credits);
      const admitTaken = (isTaken: boolean) => admitBorrowed(session, items, isTaken ? credits : 0, creditLoan);
      return isPromise(taken) ? taken.then(admitTaken) : admitTaken(taken);
    }
    const isWaived = checkCredits();
    const headers = takeRate(session, items);
    // The credits may be used up after the main process was asked.
    return isPromise(headers) ? headers.then((given) => finish(given, checkCredits())) : finish(headers, isWaived);
  }

  /** `taken`: credits that the main process has lent for these calls; 0: it has none left. */
  function admitBorrowed(
    session: Session,
    items: readonly GateItem[],
    taken: number,
    loaned: CreditLoan,
  ): Admission | Promise<Admission> {
    const { account } = session;
    const { projectId } = account;
    turnDay(account, clock.now());
    const isWaived = taken === 0;
    if (isWaived && !(items.length === 1 && items[0]?.price?.neverRefused === true))
      return refuse(new GateRefusal('credits', { retryAfterS: secondsUntil(account.cycle.endMs, clock.now()) }));
    const finish = (headers: Admission['headers']): Admission => {
      const ticket = { account, items, headers, reserved: taken, isWaived };
      const admission = createAdmission(ticket, clock.now, parts.meter.note);
      let isOpen = true;
      return {
        headers,
        isWaived,
        charge(outcomes) {
          if (!isOpen) return 0;
          isOpen = false;
          const charged = admission.charge(outcomes);
          loaned.charged(projectId, charged);
          loaned.giveBack(projectId, taken - charged);
          return charged;
        },
      };
    };
    const failed = (error: unknown): never => {
      loaned.giveBack(projectId, taken);
      throw error;
    };
    let headers: ReturnType<typeof takeRate>;
    try {
      headers = takeRate(session, items);
    } catch (error) {
      return failed(error);
    }
    return isPromise(headers) ? headers.then(finish, failed) : finish(headers);
  }

  function takeRate(
    session: Session,
    items: readonly GateItem[],
  ): Admission['headers'] | Promise<Admission['headers']> {
    const { account, own } = session;
    const limits: RateLimits = own === null ? account.limits : own.limits;
    if (limits.ratePerSecond.size === 0) return {};
    const demand = own === null ? demandOf(items) : OWN_DEMAND;
    const admitted = (taken: Admission['headers'] | GateRefusal) =>
      taken instanceof GateRefusal ? refuseRate(account, taken) : taken;
    if (loan === null) return admitted(takeTokens(bucketsOf(session), limits, demand, timeNow()));
    const taken = loan.take(ownerOf(session), limits, demand);
    return isPromise(taken) ? taken.then(admitted) : admitted(taken);
  }

  const timeNow = () => ({ nowMs: clock.monotonic(), unixMs: clock.now() });
  const bucketsOf = ({ account, own }: Session) => (own === null ? account.buckets : own.buckets);
  const ownerOf = ({ account, own }: Session) => ({ projectId: account.projectId, network: own?.network ?? null });

  function spend(caller: Caller, group: string, tokens: number): void {
    const session = sessions.get(caller);
    if (session === undefined) return;
    const { account, own } = session;
    const name = own === null ? group : (OWN_DEMAND.groups[0] as string);
    const demand: Demand = { groups: [name], counts: new Map([[name, tokens]]) };
    const limits = own === null ? account.limits : own.limits;
    const taken =
      loan === null
        ? takeTokens(bucketsOf(session), limits, demand, timeNow())
        : loan.takeNow(ownerOf(session), limits, demand);
    if (taken instanceof GateRefusal) refuseRate(account, taken);
    if (tokens > 0 && account.buckets.size > 0) parts.meter.note(account);
  }

  function debit(caller: Caller, group: string, tokens: number): void {
    const session = sessions.get(caller);
    if (session === undefined) return;
    const { account, own } = session;
    const name = own === null ? group : (OWN_DEMAND.groups[0] as string);
    if (loan === null)
      overdraw(bucketsOf(session), own === null ? account.limits : own.limits, name, tokens, timeNow());
    else loan.overdraw(ownerOf(session), name, tokens);
    if (account.buckets.size > 0) parts.meter.note(account);
  }

  const findBuckets: FindBuckets = async ({ projectId, network }) => {
    const account = await directory.project(projectId);
    if (account === null) return null;
    if (network !== null) return { ...strangers.ratesOf(network), taken: () => undefined };
    return { buckets: account.buckets, limits: account.limits, taken: () => parts.meter.note(account) };
  };
  if (peers?.isMain === true) {
    lendRates(peers, clock, findBuckets);
    lendCredits(peers, clock, directory.project);
    peers.answer('admin-rate', async (projectId) => {
      const account = await directory.project(String(projectId));
      return account?.adminWindow.take(clock.monotonic()) ?? false;
    });
  }

  /** The usage endpoint: a sliding window without burst, on every plan; it is free and not counted. */
  function admitAdmin({ account, key }: Session): Admission | Promise<Admission> {
    if (key === null) return refuse(new GateRefusal('no-key'));
    const admitted = (hasRoom: unknown): Admission =>
      hasRoom === true
        ? { headers: {}, charge: () => 0 }
        : refuseRate(account, new GateRefusal('rate', { retryAfterS: 1 }));
    if (peers === null || peers.isMain) return admitted(account.adminWindow.take(clock.monotonic()));
    return peers.askMain('admin-rate', account.projectId).then(admitted);
  }

  return {
    authenticate,
    admit,
    spend,
    debit,
    watch,
    callerOf,
    planRefusal(plan, items) {
      const limits = parts.plans().limitsOf(plan, null);
      if (limits === null) return new GateRefusal('plan');
      if (items.length > 1) {
        const refused = batchRefusal(items, limits.batch);
        if (refused !== null) return refused;
      }
      return items.map((item, index) => itemRefusal(item, index, null, limits)).find((found) => found !== null) ?? null;
    },
    changed(projectId) {
      directory.forget(projectId);
      rights.lookNow();
    },
    stop() {
      rights.stop();
      loan?.stop();
      creditLoan?.stop();
    },
  };
}

/** Whether a permission was removed; null: all permissions. */
function isNarrower(now: KeyRules['permissions'], before: KeyRules['permissions']): boolean {
  if (now === null) return false;
  return before === null || [...before].some((permission) => !now.has(permission));
}

function creditsOf(items: readonly GateItem[]): number {
  let sum = 0;
  for (const { price } of items) sum += price?.credits ?? 0;
  return sum;
}

function demandOf(items: readonly GateItem[]): Demand {
  if (items.length === 1) return { groups: items[0]?.price?.groups ?? [], counts: null };
  const counts = new Map<string, number>();
  for (const { price } of items)
    for (const group of price?.groups ?? []) counts.set(group, (counts.get(group) ?? 0) + 1);
  return { groups: [...counts.keys()], counts };
}

function secondsUntil(endMs: number, nowMs: number): number {
  return Math.min(MAX_RETRY_S, Math.max(1, Math.ceil((endMs - nowMs) / 1_000)));
}

type Outcome = Parameters<Admission['charge']>[0][number];

const BYTE_PRODUCTS: ReadonlySet<string> = new Set(['laserstreamGrpc', 'laserstreamWebsocket']);

interface Ticket {
  readonly account: Account;
  readonly items: readonly GateItem[];
  readonly headers: Readonly<Record<string, string>>;
  /** Credits reserved for all items. */
  readonly reserved: number;
  /** Nothing is charged: the calls are admitted although the credits are used up. */
  readonly isWaived: boolean;
}

/** An admission; `changed` is called when the account has unwritten usage. */
export function createAdmission(ticket: Ticket, unixMs: () => number, changed: (account: Account) => void): Admission {
  const { account, items, reserved } = ticket;
  account.reservedCredits += reserved;
  let isOpen = true;
  return {
    headers: ticket.headers,
    isWaived: ticket.isWaived,
    charge(outcomes) {
      if (!isOpen) return 0;
      isOpen = false;
      account.reservedCredits -= reserved;
      turnDay(account, unixMs());
      let counted = false;
      let credits = 0;
      for (let i = 0; i < outcomes.length; i += 1) {
        const price = items[i]?.price;
        const outcome = outcomes[i] as Outcome;
        if (price === undefined || !outcome.charged) continue;
        credits += charge(account, price, outcome, ticket.isWaived);
        counted = true;
      }
      if (counted || account.buckets.size > 0) changed(account);
      return credits;
    },
  };
}

/** Returns the credits. */
function charge(account: Account, price: Price, { bytesOut, credits: own }: Outcome, isWaived: boolean): number {
  const ofBytes = BYTE_PRODUCTS.has(price.product);
  const credits = isWaived ? 0 : Math.min(price.credits, own ?? price.credits);
  countCall(account, price.product, {
    credits,
    bytes: ofBytes ? bytesOut : 0,
    isRequest: !ofBytes,
  });
  return credits;
}

/** A client without a key. */
interface Anonymous {
  readonly caller: Caller;
  readonly account: Account;
  readonly limits: RateLimits;
  readonly buckets: Buckets;
  readonly network: string;
}

const MAX_ADDRESSES = 10_000;

/** Calls without a key count for one project and have a rate per client address, without burst. */
function createAnonymous(config: AccessConfig['anonymous'], directory: Pick<Directory, 'project'>) {
  const networks = derived(() => config.cidrs, createNetworks);
  const rate = derived(
    () => config.ratePerSecondPerIp,
    (perSecond): RateLimits => ({ ratePerSecond: new Map([['address', perSecond]]), burstFactor: 1 }),
  );
  const known = createLru<string, { readonly buckets: Buckets }>({ max: MAX_ADDRESSES });
  const ratesOf = (network: string): { readonly limits: RateLimits; readonly buckets: Buckets } => {
    const { buckets } = known.get(network) ?? { buckets: new Map() };
    known.set(network, { buckets });
    return { limits: rate(), buckets };
  };
  return {
    ratesOf,
    /** Null: not allowed. */
    async find(address: string): Promise<Anonymous | null> {
      if (config.projectId === null || !networks()(address)) return null;
      const account = await directory.project(config.projectId);
      if (account === null || account.isDisabled) return null;
      const network = networkOf(address);
      const { projectId } = account;
      const caller: Caller = {
        projectId,
        keyId: null,
        plan: account.limits.plan,
        wallet: null,
        budgets: account.limits.budgets,
      };
      return { caller, account, network, ...ratesOf(network) };
    },
  };
}

const WALLET = '/v1/wallet/';

/** Why this key or plan may not make a call, independent of credits and rate; null if it may. */
function itemRefusal(item: GateItem, index: number, rules: KeyRules | null, limits: Limits): GateRefusal | null {
  if (rules !== null && rules.permissions !== null && lacks(item, rules.permissions))
    return new GateRefusal('permission', { item: index });
  const { price } = item;
  if (price === undefined) return null;
  for (const group of price.groups)
    if (limits.ratePerSecond.get(group) === 0) return new GateRefusal('plan', { item: index });
  if (limits.refusedWallet !== null && item.name.startsWith(WALLET)) {
    const segment = item.name.slice(item.name.lastIndexOf('/') + 1);
    if (limits.refusedWallet.has(segment)) return new GateRefusal('plan', { item: index });
  }
  return null;
}

function lacks({ price, permission }: GateItem, permissions: ReadonlySet<string>): boolean {
  if (permission === null) return false;
  if (permission !== undefined) return !permissions.has(permission);
  return price !== undefined && !permissions.has(price.product);
}

/** Why the plan does not allow this batch; null if it does. */
function batchRefusal(items: readonly GateItem[], limits: BatchLimits): GateRefusal | null {
  const refuse = (details: string) => new GateRefusal('batch', { details });
  if (limits.maxItems !== null && items.length > limits.maxItems)
    return refuse(`a batch has at most ${limits.maxItems} items on this plan`);
  let historical = 0;
  let transactions = 0;
  for (const { name, price } of items) {
    if (limits.notBatchable.has(name)) return refuse(`${name} cannot be part of a batch on this plan`);
    if (name === 'getTransaction') transactions += 1;
    else if (price?.product === 'archival') historical += 1;
  }
  if (limits.historicalMax !== null && historical > limits.historicalMax)
    return refuse(`a batch has at most ${limits.historicalMax} historical calls on this plan`);
  if (limits.getTransactionMax !== null && transactions > limits.getTransactionMax)
    return refuse(`a batch has at most ${limits.getTransactionMax} getTransaction calls on this plan`);
  return null;
}

/**
 * The key that counts: the first of query, `X-Api-Key` and Bearer that is set. Null if none is. Throws `bad-key` if the query contains
 * several keys.
 */
function presentedKey({ query, header, bearer }: Credentials): string | null {
  const first = query[0];
  if (query.length === 1 && first !== undefined && first !== '') return first;
  if (query.length > 0) {
    const given = new Set(query.filter((value) => value !== ''));
    if (given.size > 1) throw new GateRefusal('bad-key');
    const [key] = given;
    if (key !== undefined) return key;
  }
  return header || bearer || null;
}
