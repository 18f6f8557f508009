import {
  type Admission,
  type Caller,
  type Clock,
  type Credentials,
  type Gate,
  type GateItem,
  GateRefusal,
  type Metrics,
} from '../../../src/kernel/plugin.ts';
import type { AccessConfig } from '../config.ts';
import { type Account, affordable, turnDay } from '../metering/account.ts';
import type { Meter } from '../metering/meter.ts';
import { isKeyForm, keyName } from '../projects/key-form.ts';
import { type Demand, type RateLimits, takeTokens } from '../rates/rates.ts';
import { createAdmission } from './admission.ts';
import { type Anonymous, createAnonymous } from './anonymous.ts';
import { batchRefusal } from './batch-limits.ts';
import type { Directory, KnownKey } from './directory.ts';
import { createGuessBrake } from './guess-brake.ts';
import { itemRefusal } from './item-refusal.ts';
import type { KeyRules } from './key-rules.ts';
import { presentedKey } from './presented-key.ts';

export interface GateParts {
  readonly directory: Directory;
  readonly meter: Pick<Meter, 'note'>;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly config: AccessConfig;
}

/** What a caller's calls are measured against. */
interface Session {
  readonly account: Account;
  /** Null: a caller without a key. */
  readonly key: KnownKey | null;
  readonly rules: KeyRules | null;
  /** Rates of the caller alone, instead of the project's. */
  readonly own: Anonymous | null;
}

/** A turn of credits is waited for no longer than this: longer waits overflow the timers of clients. */
const MAX_RETRY_S = 86_400;
const ADMIN_GROUP = 'admin';
const OWN_DEMAND: Demand = { groups: ['address'], counts: null };

/**
 * Decides who calls, and whether the calls go: permission and plan of each item, then credits, then rate of all together. Whether a
 * wrong key is unknown, revoked or expired is not told. A key that is remembered is decided on without a promise.
 */
export function createGate(parts: GateParts): Gate {
  const { directory, clock, config } = parts;
  const refusals = parts.metrics.counter('refused_total', 'calls that the gate refused, by reason', ['reason']);
  const slowed = parts.metrics.counter('guesses_slowed_total', 'look-ups of unknown keys that were made to wait');
  const brake = createGuessBrake(clock, config.badKeysPerMinute, () => slowed.add());
  const anonymous = createAnonymous(config.anonymous, directory);
  const sessions = new WeakMap<Caller, Session>();

  const refuse = (refusal: GateRefusal): never => {
    refusals.with(refusal.reason).add();
    throw refusal;
  };

  function accept(key: KnownKey, { origin }: Credentials, address: string): Caller {
    const { rules, caller, expiresAt } = key;
    if (expiresAt !== null && expiresAt <= clock.now()) return refuse(new GateRefusal('bad-key'));
    if (rules.allowsAddress !== null && !rules.allowsAddress(address)) return refuse(new GateRefusal('ip'));
    if (rules.allowsOrigin !== null && !rules.allowsOrigin(origin))
      return refuse(new GateRefusal('permission', { details: 'Origin not allowed for this API key' }));
    if (!sessions.has(caller)) sessions.set(caller, { account: key.account, key, rules, own: null });
    return caller;
  }

  async function lookUp(name: string, address: string): Promise<KnownKey> {
    await brake.pause(address);
    try {
      return await directory.ask(name);
    } catch (error) {
      if (!(error instanceof GateRefusal)) throw error;
      brake.failed(address);
      return refuse(error);
    }
  }

  async function acceptAnonymous(address: string): Promise<Caller> {
    const found = await anonymous(address);
    if (found === null) return refuse(new GateRefusal('no-key'));
    sessions.set(found.caller, { account: found.account, key: null, rules: null, own: found });
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
    if (key === null || clock.monotonic() <= key.untilMs) return admitNow(session, items);
    // Long after the key was seen: a websocket, or a body that took its time.
    const known = directory.known(key.name);
    if (known !== undefined) return admitNow(renew(caller, known), items);
    return directory.ask(key.name).then((found) => admitNow(renew(caller, found), items));
  }

  function renew(caller: Caller, key: KnownKey): Session {
    if (key.expiresAt !== null && key.expiresAt <= clock.now()) return refuse(new GateRefusal('bad-key'));
    const session: Session = { account: key.account, key, rules: key.rules, own: null };
    sessions.set(caller, session);
    return session;
  }

  function admitNow(session: Session, items: readonly GateItem[]): Admission {
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
    const unixMs = clock.now();
    turnDay(account, unixMs);
    const credits = items.length === 1 ? (first?.credits ?? 0) : creditsOf(items);
    const isShort = credits > 0 && credits > affordable(account);
    const isWaived = isShort && items.length === 1 && first?.neverRefused === true;
    if (isShort && !isWaived)
      return refuse(new GateRefusal('credits', { retryAfterS: secondsUntil(account.cycle.endMs, unixMs) }));
    const headers = takeRate(session, items, unixMs);
    const ticket = { account, items, headers, reserved: isWaived ? 0 : credits, isWaived };
    return createAdmission(ticket, clock.now, parts.meter.note);
  }

  function takeRate({ account, own }: Session, items: readonly GateItem[], unixMs: number): Admission['headers'] {
    const limits: RateLimits = own === null ? account.limits : own.limits;
    if (limits.ratePerSecond.size === 0) return {};
    const demand = own === null ? demandOf(items) : OWN_DEMAND;
    const buckets = own === null ? account.buckets : own.buckets;
    const headers = takeTokens(buckets, limits, demand, { nowMs: clock.monotonic(), unixMs });
    return headers instanceof GateRefusal ? refuse(headers) : headers;
  }

  /** The usage endpoint: a window without a burst, on every plan; it costs nothing and is not counted. */
  function admitAdmin({ account, key }: Session): Admission {
    if (key === null) return refuse(new GateRefusal('no-key'));
    if (!account.adminWindow.take(clock.monotonic())) return refuse(new GateRefusal('rate', { retryAfterS: 1 }));
    return { headers: {}, settle: () => undefined };
  }

  return { authenticate, admit };
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
