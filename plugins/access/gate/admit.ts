import type { Admission, GateItem } from '../../../src/plugin/host.ts';
import { type Caller, type Clock, GateRefusal } from '../../../src/plugin/plugin.ts';
import type { ApiPeers } from '../../../src/ports/processes.ts';
import { isPromise } from '../../../src/runtime/waiting.ts';
import { affordable, isMetered, type ProjectAccount, turnDay } from '../account.ts';
import type { CreditLoan } from '../credits.ts';
import type { Meter, ProjectMetrics } from '../meter.ts';
import { type borrowRates, type Demand, overdraw, type RateLimits, takeTokens } from '../rates.ts';
import { createAdmission } from './admission.ts';
import { batchRefusal, itemRefusal } from './rules.ts';
import type { GateSession, GateSessions } from './sessions.ts';

/** Upper bound of Retry-After until the next credit cycle: longer waits overflow the timers of clients. */
const MAX_RETRY_S = 86_400;
const ADMIN_GROUP = 'admin';
const OWN_DEMAND: Demand = { groups: ['address'], counts: null };

type Headers = Admission['headers'];

interface AdmitterParts {
  readonly sessions: GateSessions;
  readonly clock: Clock;
  readonly meter: Pick<Meter, 'note'>;
  readonly perProject: Pick<ProjectMetrics, 'rateLimited'>;
  /** The other processes of the API; null: there are none. */
  readonly peers: ApiPeers | null;
  /** Where this process gets rates from; null: it has them. */
  readonly rateLoan: ReturnType<typeof borrowRates> | null;
  /** Where this process gets the credits of calls from; null: it knows what is left. */
  readonly creditLoan: CreditLoan | null;
}

/** Admits calls: permission and plan of each item, then credits, then the rate of all items together. */
export class Admitter {
  private readonly parts: AdmitterParts;

  constructor(parts: AdmitterParts) {
    this.parts = parts;
  }

  /** Throws GateRefusal. */
  admit(caller: Caller, items: readonly GateItem[]): Admission | Promise<Admission> {
    const session = this.parts.sessions.current(caller);
    return isPromise(session) ? session.then((now) => this.admitNow(now, items)) : this.admitNow(session, items);
  }

  /** Takes tokens of one group. Throws GateRefusal. */
  spend(caller: Caller, group: string, tokens: number): void {
    const { sessions, rateLoan, meter } = this.parts;
    const session = sessions.get(caller);
    if (session === undefined) return;
    const { account } = session;
    const demand: Demand = { groups: [groupOf(session, group)], counts: new Map([[groupOf(session, group), tokens]]) };
    const taken =
      rateLoan === null
        ? takeTokens(bucketsOf(session), limitsOf(session), demand, this.timeNow())
        : rateLoan.takeNow(ownerOf(session), limitsOf(session), demand);
    if (taken instanceof GateRefusal) this.refuseRate(account, taken);
    if (tokens > 0 && account.buckets.size > 0) meter.note(account);
  }

  /** Takes tokens that may not be there. */
  debit(caller: Caller, group: string, tokens: number): void {
    const { sessions, rateLoan, meter } = this.parts;
    const session = sessions.get(caller);
    if (session === undefined) return;
    const { account } = session;
    const name = groupOf(session, group);
    if (rateLoan === null) overdraw(bucketsOf(session), limitsOf(session), name, tokens, this.timeNow());
    else rateLoan.overdraw(ownerOf(session), name, tokens);
    if (account.buckets.size > 0) meter.note(account);
  }

  private admitNow(session: GateSession, items: readonly GateItem[]): Admission | Promise<Admission> {
    const { account, rules } = session;
    const { limits } = account;
    const { sessions, creditLoan } = this.parts;
    const refused = items.length > 1 ? batchRefusal(items, limits.batch) : null;
    if (refused !== null) return sessions.refuse(refused);
    for (let i = 0; i < items.length; i += 1) {
      const refusal = itemRefusal(items[i] as GateItem, i, rules, limits);
      if (refusal !== null) return sessions.refuse(refusal);
    }
    const first = items[0]?.price;
    if (first !== undefined && first.groups[0] === ADMIN_GROUP) return this.admitAdmin(session);
    const credits = items.length === 1 ? (first?.credits ?? 0) : creditsOf(items);
    if (creditLoan !== null && credits > 0 && isMetered(account)) {
      const taken = creditLoan.take(account.projectId, credits);
      const admitTaken = (isTaken: boolean) => this.admitBorrowed(session, items, isTaken ? credits : 0, creditLoan);
      return isPromise(taken) ? taken.then(admitTaken) : admitTaken(taken);
    }
    const isWaived = this.isWaived(account, items, credits);
    const headers = this.takeRate(session, items);
    const finish = (given: Headers, waived: boolean): Admission =>
      this.admission(account, items, given, { reserved: waived ? 0 : credits, isWaived: waived });
    // The credits may be used up after the main process was asked.
    return isPromise(headers)
      ? headers.then((given) => finish(given, this.isWaived(account, items, credits)))
      : finish(headers, isWaived);
  }

  /** Whether the calls are admitted although the credits are used up. Throws GateRefusal when they are not admitted then. */
  private isWaived(account: ProjectAccount, items: readonly GateItem[], credits: number): boolean {
    const unixMs = this.parts.clock.now();
    turnDay(account, unixMs);
    if (credits === 0 || credits <= affordable(account)) return false;
    return isNeverRefused(items) || this.refuseCredits(account, unixMs);
  }

  /** `taken`: credits that the main process has lent for these calls; 0: it has none left. */
  private admitBorrowed(
    session: GateSession,
    items: readonly GateItem[],
    taken: number,
    loaned: CreditLoan,
  ): Admission | Promise<Admission> {
    const { account } = session;
    const { projectId } = account;
    turnDay(account, this.parts.clock.now());
    const isWaived = taken === 0;
    if (isWaived && !isNeverRefused(items)) return this.refuseCredits(account, this.parts.clock.now());
    const finish = (headers: Headers): Admission => {
      const admission = this.admission(account, items, headers, { reserved: taken, isWaived });
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
    let headers: Headers | Promise<Headers>;
    try {
      headers = this.takeRate(session, items);
    } catch (error) {
      return failed(error);
    }
    return isPromise(headers) ? headers.then(finish, failed) : finish(headers);
  }

  /** The usage endpoint: a sliding window without burst, on every plan; it is free and not counted. */
  private admitAdmin({ account, key }: GateSession): Admission | Promise<Admission> {
    const { sessions, peers, clock } = this.parts;
    if (key === null) return sessions.refuse(new GateRefusal('no-key'));
    const admitted = (hasRoom: unknown): Admission =>
      hasRoom === true
        ? { headers: {}, charge: () => 0 }
        : this.refuseRate(account, new GateRefusal('rate', { retryAfterS: 1 }));
    if (peers === null || peers.isMain) return admitted(account.adminWindow.take(clock.monotonic()));
    return peers.askMain('admin-rate', account.projectId).then(admitted);
  }

  private takeRate(session: GateSession, items: readonly GateItem[]): Headers | Promise<Headers> {
    const { account, own } = session;
    const { rateLoan } = this.parts;
    const limits = limitsOf(session);
    if (limits.ratePerSecond.size === 0) return {};
    const demand = own === null ? demandOf(items) : OWN_DEMAND;
    const admitted = (taken: Headers | GateRefusal) =>
      taken instanceof GateRefusal ? this.refuseRate(account, taken) : taken;
    if (rateLoan === null) return admitted(takeTokens(bucketsOf(session), limits, demand, this.timeNow()));
    const taken = rateLoan.take(ownerOf(session), limits, demand);
    return isPromise(taken) ? taken.then(admitted) : admitted(taken);
  }

  private admission(
    account: ProjectAccount,
    items: readonly GateItem[],
    headers: Headers,
    { reserved, isWaived }: { readonly reserved: number; readonly isWaived: boolean },
  ): Admission {
    const { clock, meter } = this.parts;
    return createAdmission({ account, items, headers, reserved, isWaived }, clock.now, meter.note);
  }

  private timeNow() {
    const { clock } = this.parts;
    return { nowMs: clock.monotonic(), unixMs: clock.now() };
  }

  private refuseRate({ projectId }: ProjectAccount, refusal: GateRefusal): never {
    this.parts.perProject.rateLimited(projectId);
    return this.parts.sessions.refuse(refusal);
  }

  private refuseCredits({ cycle }: ProjectAccount, unixMs: number): never {
    return this.parts.sessions.refuse(new GateRefusal('credits', { retryAfterS: secondsUntil(cycle.endMs, unixMs) }));
  }
}

const limitsOf = ({ account, own }: GateSession): RateLimits => (own === null ? account.limits : own.limits);
const bucketsOf = ({ account, own }: GateSession) => (own === null ? account.buckets : own.buckets);
const ownerOf = ({ account, own }: GateSession) => ({ projectId: account.projectId, network: own?.network ?? null });
const groupOf = ({ own }: GateSession, group: string): string => (own === null ? group : OWN_DEMAND.groups[0]!);

const isNeverRefused = (items: readonly GateItem[]): boolean =>
  items.length === 1 && items[0]?.price?.neverRefused === true;

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
